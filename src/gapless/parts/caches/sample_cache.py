"""Keep samples that are the same each time they are made, so that they are made once."""

from __future__ import annotations

import operator
import random
import sys
from typing import Any, Callable

import torch

from ..sample_codec import UnencodableError, decode, encode
from .disk_store import DiskStore
from .memory_store import NOT_SHARED, MemoryStore, shares_memory

_FIRST_CHECKS = 4  # samples of a process that are made all the same, and compared
_CHECK_EVERY = 32  # and from then on
_MAX_RANDOM = 16  # samples that draw numbers; none kept until then, and none will be
_METHOD = "__getitems__"


def cache_samples(loader: Any, folder: str | None = None) -> Any:
    """Let the samples of a ``DataLoader`` be made once; return the loader.

    ``loader = cache_samples(DataLoader(…))``: from the second epoch on, samples come from memory
    that the workers share, at most a half of what is free; with a folder they come from there, in
    later runs too. Kept are samples whose making draws no random number, of tensors, arrays,
    pictures, numbers and texts. Of those that are given again, some are made all the same: if one
    is another now, nothing is kept any more. Raises ``ValueError`` for a loader that this cannot
    be done for.
    """
    obstacle = find_obstacle(loader, folder)
    if obstacle is not None:
        raise ValueError(obstacle)
    if not isinstance(vars(loader.dataset).get(_METHOD), CachedSamples):
        attach_cache(loader, folder)
    return loader


def find_obstacle(loader: Any, folder: str | None = None) -> str | None:
    """Return why the samples of a loader cannot be kept; None: nothing is known of."""
    dataset = loader.dataset
    is_stream = isinstance(dataset, torch.utils.data.IterableDataset)
    if is_stream or loader.batch_sampler is None or not hasattr(type(dataset), "__len__"):
        return "its samples have no numbers by which they are asked for"
    if not hasattr(dataset, "__dict__"):
        return f"{type(dataset).__name__} holds its samples already"
    return None if folder is not None or shares_memory(loader) else NOT_SHARED


def attach_cache(loader: Any, folder: str | None = None) -> CachedSamples:
    """Let a loader's samples be kept; return what keeps them."""
    dataset = loader.dataset
    in_memory = folder is None
    store = MemoryStore(len(dataset), loader.num_workers) if in_memory else DiskStore(str(folder))
    samples = CachedSamples(dataset, store)
    vars(dataset)[_METHOD] = samples
    return samples


class CachedSamples:
    """A data set's ``__getitems__``, by which torch asks for the samples of a batch.

    ``on_kept``: called in each process when a kept sample is given; ``on_refused``: with the reason
    why no more are kept.
    """

    def __init__(self, dataset: Any, store: Any) -> None:
        self.dataset, self.store = dataset, store
        self.on_kept: Callable[[], None] | None = None
        self.on_refused: Callable[[str], None] | None = None
        self.is_over = False
        self._n_given = self._n_random = 0
        self._name = f"{type(dataset).__module__}.{type(dataset).__qualname__}:{len(dataset)}"

    def __call__(self, indices: Any) -> list[Any]:
        """Return samples: those that are kept, and others as ever."""
        if self.is_over or self.store.is_ended():
            return self._make_all(indices)
        return [self._find(index) for index in indices]

    def _find(self, index: Any) -> Any:
        key = self._key(index)
        data = None if key is None else self.store.get(key)
        if key is None or data is None:
            return self._make_and_keep(index, key)
        self._n_given += 1
        if self._n_given <= _FIRST_CHECKS or self._n_given % _CHECK_EVERY == 0:
            sample = self._make(index)
            if encode_sample(sample) != data:
                self.refuse(f"sample {index!r:.20} is another than it was")
            return sample
        if self.on_kept is not None:
            self.on_kept()
        return decode(bytearray(data))

    def _key(self, index: Any) -> bytes | None:
        """Return the key of a sample; None: it is not to be kept, or asked for by no number."""
        if self.is_over:
            return None
        try:
            return f"{self._name}:{operator.index(index)}".encode()
        except TypeError:
            return None

    def _make_and_keep(self, index: Any, key: bytes | None) -> Any:
        if key is None or self.is_over:
            return self._make(index)
        before = random_state()
        sample = self._make(index)
        if not are_equal(before, random_state()):
            self._n_random += 1
            if self._n_random >= _MAX_RANDOM and not self.store.n_kept:
                self.refuse("making samples draws random numbers: each is another every time")
            return sample
        data = encode_sample(sample)
        if data is None:
            self.refuse("samples hold objects of a kind that cannot be kept")
        else:
            self.store.put(key, data)
        return sample

    def _make(self, index: Any) -> Any:
        return self._make_all([index])[0]

    def _make_all(self, indices: Any) -> list[Any]:
        users = getattr(type(self.dataset), _METHOD, None)
        if users is not None:
            return users(self.dataset, indices)
        return [self.dataset[index] for index in indices]

    def refuse(self, why: str) -> None:
        """Keep no more samples, and give none, in any process."""
        self.is_over = True
        self.store.end()
        if self.on_refused is not None:
            self.on_refused(why)


def find_check_share(process_samples: float) -> float:
    """Return the share of samples that are made all the same; ``process_samples``: of a process."""
    return min(1.0, 1 / _CHECK_EVERY + _FIRST_CHECKS / process_samples)


def encode_sample(sample: Any) -> bytes | None:
    """Return a sample as bytes; None: it has parts of which that cannot be made."""
    try:
        return encode(sample)
    except UnencodableError:
        return None


def random_state() -> tuple[Any, ...]:
    """Return where the global generators of random numbers are."""
    numpy = sys.modules.get("numpy.random")
    drawn = () if numpy is None else numpy.get_state()
    return torch.get_rng_state(), random.getstate(), drawn


def are_equal(before: tuple[Any, ...], after: tuple[Any, ...]) -> bool:
    """Return whether no random number was drawn between two looks."""
    (torch_before, python_before, numpy_before) = before
    (torch_after, python_after, numpy_after) = after
    if not torch.equal(torch_before, torch_after) or python_before != python_after:
        return False
    return len(numpy_before) == len(numpy_after) and all(
        bool((old == new).all()) if hasattr(old, "all") else old == new
        for old, new in zip(numpy_before, numpy_after)
    )
