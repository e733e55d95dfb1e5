"""The samples of a loader: which ones, in its order, and how they are made."""

from __future__ import annotations

import itertools
from typing import Any

from .. import tracebacks

MAX_UNITS = 100_000


class SampleSource:
    """A loader's data set, and the first indices that its sampler draws.

    A *unit* is what one call of the data set makes: a sample; where the loader puts no batches
    together, what the data set itself returns, which may be a batch.
    """

    def __init__(self, loader: Any, samples: int) -> None:
        self.dataset = loader.dataset
        self.collate_fn = loader.collate_fn
        self.is_iterable = loader._dataset_kind != 0
        self.makes_batches = bool(loader._auto_collation)
        self._iterator: Any = None
        self.batch_units = 1
        self.process_samples = float("inf")  # that a process makes until it ends
        if loader.num_workers and not loader.persistent_workers and not self.is_iterable:
            with tracebacks.suppress(Exception):  # a sampler need not have a length
                self.process_samples = max(1.0, len(loader.sampler) / loader.num_workers)
        if self.is_iterable:
            self.batch_units = int(loader.batch_size or 1)
            count = max(samples, self.batch_units)
            self.units: list[Any] = list(range(count))
        elif self.makes_batches:
            self.units = []
            for batch in loader.batch_sampler:
                self.batch_units = max(self.batch_units, len(batch))
                self.units += batch
                if len(self.units) >= min(samples, MAX_UNITS):
                    break
        else:
            self.units = list(itertools.islice(iter(loader.sampler), samples))

    def unit_samples(self) -> int:
        """Return how many samples a unit makes, as far as the first index says."""
        is_batch = (
            not self.makes_batches and self.units and isinstance(self.units[0], (list, tuple))
        )
        return max(1, len(self.units[0])) if is_batch else 1

    def fetches_many(self) -> bool:
        """Return whether the data set takes several indices at a time."""
        has_way = callable(getattr(self.dataset, "__getitems__", None))
        return has_way and self.makes_batches and not self.is_iterable

    def fetch(self, units: list[Any]) -> list[Any]:
        """Make the samples of some units, as torch's fetchers do. Of an iterable: the next ones."""
        if self.is_iterable:
            return self._next(len(units))
        if self.fetches_many():
            return list(self.dataset.__getitems__(units))
        return [self.dataset[unit] for unit in units]

    def collate(self, samples: list[Any]) -> Any:
        """Put samples together, as the loader does; without batches, convert the first one."""
        return self.collate_fn(samples if self.makes_batches else samples[0])

    def _next(self, count: int) -> list[Any]:
        """Return the next samples of an iterable data set, which begins anew at its end."""
        samples: list[Any] = []
        for _ in range(2):
            if self._iterator is None:
                self._iterator = iter(self.dataset)
            samples += itertools.islice(self._iterator, count - len(samples))
            if len(samples) >= count:
                break
            self._iterator = None
        return samples
