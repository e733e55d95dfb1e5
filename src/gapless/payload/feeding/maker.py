"""Samples made as the loader makes them, each stage timed; what else would do the same.

All figures are ns for each sample. A *cell* is one thing that is timed for a group of samples;
rounds go through all cells in an order of their own, so that a disturbance meets all alike.
"""

from __future__ import annotations

import copy
import functools
import os
import sys
from time import monotonic_ns, thread_time_ns
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from ... import wire
from ..loading import reads
from ..loading.stopwatch import OTHER, READ, Stopwatch
from ..overlay import iterations
from . import decoders, file_reads, kept, pixels
from .batches import NOW, HeldBatch
from .observation import Observation
from .result import describe_error

if TYPE_CHECKING:
    from .source import SampleSource

COLD = "now, cold"
AHEAD = "read ahead, cold"
WHOLE = "whole"  # of making a sample, undivided
_FIRST_GROUP = 4  # units, until it is known how long one takes
_GROUP_S = 1.5  # of making a group, about
_MAX_RAISED = 20  # samples that may raise; more, and nothing is measured
_MIN_STAGE_SHARE = 1e-4  # of a sample: below, a stage did not take place
_MAX_SHRINKS = 4  # of a group, that are remembered
_MAX_SHRUNK = 32  # pictures that are held decoded


class SampleGroup(NamedTuple):
    """Some units that are timed together, and what was seen of them."""

    units: list[Any]
    samples: int
    files: list[str]
    encoded: list[bytes]
    kept_units: list[Any]  # whose samples a cache would keep


class GroupReport(NamedTuple):
    """What is said of a group, in plain values: it may come from another process."""

    samples: int
    files: list[str]
    encoded: int
    raised: list[str]
    cells: list[str]


class Maker:
    """Makes the samples of a loader, in this process."""

    def __init__(self, source: SampleSource, *, is_worker: bool) -> None:
        self.source, self._is_worker = source, is_worker
        self._batch = HeldBatch(source, is_worker=is_worker)
        self._groups: list[SampleGroup] = []
        self._library: str | None = None
        self._decoders: list[decoders.Decoder] = []
        self._absent: dict[str, dict[str, str]] = {"read": {}, "decode": {}, "sample": {}}
        has_numbers = source.makes_batches and not source.is_iterable
        self._keeping = kept.KeptSamples(source) if has_numbers else None
        self._raised: list[str] = []
        self._shrink: int | None = None
        self._shrinks: list[Any] = []
        self._is_whole: bool | None = None  # what is shrunk is a whole picture
        self._next_unit = 0
        self._group_size = _FIRST_GROUP

    def as_worker(self) -> Maker:
        """Return one that makes batches of the same samples as a worker does, in a fork."""
        worker = copy.copy(self)
        worker._is_worker = True
        return worker

    def begin(self, loader: Any) -> None:
        """Be a worker of the loader, as torch's are; or the training process itself."""
        if not self._is_worker:
            return
        torch = sys.modules["torch"]
        worker = sys.modules["torch.utils.data._utils.worker"]
        torch.set_num_threads(1)
        worker._worker_info = worker.WorkerInfo(
            id=0, num_workers=loader.num_workers, seed=0, dataset=loader.dataset
        )
        if loader.worker_init_fn is not None:
            loader.worker_init_fn(0)

    # ── Groups ──────────────────────────────────────────────────────────────────────────────────

    def add_group(self, groups: int) -> GroupReport | None:
        """Make the next samples once, and look at what that takes; ``None``: there are no more.

        ``groups``: into how many all are to be divided. Samples that raise are left out. Raises
        what they raise, if many do.
        """
        units = self._take_units(groups)
        if not units:
            return None
        made_units: list[Any] = []
        samples: list[Any] = []
        n_raised = len(self._raised)
        if self._keeping is not None:
            self._keeping.begin()
        with Observation() as observation:
            began = monotonic_ns()
            for chunk in self._chunks(units):
                made = self._fetch(chunk)
                made_units += chunk[: len(made)]
                samples += made
            took_s = (monotonic_ns() - began) / 1e9
        if not samples and len(self._raised) == n_raised:
            return None  # an iterable has ended
        self._group_size = max(1, int(_GROUP_S * len(units) / max(took_s, 1e-9)))
        self._batch.hold(samples)
        self._learn(observation)
        files = list(dict.fromkeys(observation.files))
        n_samples = len(made_units) * self.source.unit_samples()
        group = SampleGroup(
            made_units, n_samples, files, observation.encoded, self._keep(made_units, samples)
        )
        if made_units:
            self._groups.append(group)
        cells = list(self._cells(group)) if made_units else []
        return GroupReport(group.samples, files, len(group.encoded), self._raised[n_raised:], cells)

    def _keep(self, units: list[Any], samples: list[Any]) -> list[Any]:
        if self._keeping is None:
            return []
        kept_units = self._keeping.keep(units, samples)
        if self._keeping.why is not None:
            self._absent["sample"][kept.SAMPLES] = self._keeping.why
        return kept_units

    def _take_units(self, groups: int) -> list[Any]:
        """Return the next units: an even share of all, as far as that takes some 1.5 s."""
        units = self.source.units
        count = min(max(1, -(-len(units) // max(1, groups))), self._group_size)
        start, self._next_unit = self._next_unit, min(len(units), self._next_unit + count)
        return units[start : self._next_unit]

    def _chunks(self, units: list[Any]) -> list[list[Any]]:
        """Return units as they are fetched: one by one, but where the data set takes many."""
        return [units] if self.source.fetches_many() else [[unit] for unit in units]

    def _fetch(self, chunk: list[Any]) -> list[Any]:
        try:
            return self.source.fetch(chunk)
        except Exception as error:
            subject = f"sample {chunk[0]!r:.40}" if len(chunk) == 1 else f"{len(chunk)} samples"
            self._raised.append(f"{subject}: {describe_error(error)}")
            if len(self._raised) >= _MAX_RAISED:
                raise
            return []

    def _learn(self, observation: Observation) -> None:
        self._shrinks += observation.shrinks[:_MAX_SHRINKS]
        factor = observation.shrink_factor()
        self._shrink = factor if self._shrink is None else min(self._shrink, factor)
        if self._library is None and observation.library is not None:
            self._library = observation.library
            self._decoders, absent = decoders.find_decoders(self._library, self._shrink)
            self._absent["decode"].update(absent)

    # ── Cells ───────────────────────────────────────────────────────────────────────────────────

    def run(self, cell: str, number: int) -> dict[tuple[str, str], float]:
        """Time a cell for a group: (stage, way) → ns for each sample. Raises what it raises."""
        group = self._groups[number]
        return self._cells(group)[cell]()

    def _cells(self, group: SampleGroup) -> dict[str, Callable[[], Any]]:
        bind = functools.partial
        cells: dict[str, Any] = {
            "whole": bind(self._time_whole, group),
            "stages": bind(self._time_stages, group),
            **self._batch.cells(),
        }
        if group.files and not self.source.is_iterable:
            cells["stages, cold"] = bind(self._time_cold, group)
            if hasattr(os, "posix_fadvise"):
                cells["stages, read ahead"] = bind(self._time_ahead, group)
            cells["raw"] = bind(self._time_raw, group, is_cold=False)
            cells["raw, cold"] = bind(self._time_raw, group, is_cold=True)
        if group.kept_units and self._keeping is not None and self._keeping.why is None:
            cells["samples, kept"] = bind(self._time_kept, group)
        if group.encoded and self._library == "Pillow":
            cells["pictures, kept"] = bind(_time_kept_pictures, group)
        for decoder in self._decoders if group.encoded else ():
            cells[f"decode by {decoder.name}"] = bind(self._time_decoder, decoder, group)
            if self._shrinks_whole(group):
                cells[f"shrink after {decoder.name}"] = bind(self._time_shrink, decoder, group)
        return cells

    def _shrinks_whole(self, group: SampleGroup) -> bool:
        """Return whether whole pictures of Pillow's are shrunk, by two or more, uncropped."""
        if self._library != "Pillow" or (self._shrink or 1) < 2 or not self._shrinks:  # noqa: PLR2004
            return False
        if self._is_whole is None:
            size = self._decoders[0].decode(group.encoded[0]).size
            self._is_whole = size == self._shrinks[0].before
        return bool(self._is_whole)

    def _time_whole(self, group: SampleGroup) -> dict[tuple[str, str], float]:
        start = monotonic_ns()
        self.source.fetch(group.units)
        return {("sample", WHOLE): (monotonic_ns() - start) / group.samples}

    def _time_stages(self, group: SampleGroup) -> dict[tuple[str, str], float]:
        wall = self._watch(group)
        return {
            ("rest" if index == OTHER else wire.STAGES[index], NOW): ns / group.samples
            for index, ns in enumerate(wall)
            if ns > _MIN_STAGE_SHARE * sum(wall) or index == OTHER
        }

    def _time_cold(self, group: SampleGroup) -> dict[tuple[str, str], float]:
        """Time reading within making samples, once their files are out of memory."""
        if not self._drop(group, COLD):
            return {}
        return {("read", COLD): self._watch(group)[READ] / group.samples}

    def _time_ahead(self, group: SampleGroup) -> dict[tuple[str, str], float]:
        """Time the same, once the system was told of all of the files."""
        if not self._drop(group, AHEAD):
            return {}
        start = monotonic_ns()
        for path in group.files:
            iterations.import_part("read_ahead").advise(path)
        advice_ns = monotonic_ns() - start
        return {("read", AHEAD): (advice_ns + self._watch(group)[READ]) / group.samples}

    def _time_kept(self, group: SampleGroup) -> dict[tuple[str, str], float]:
        assert self._keeping is not None  # noqa: S101 - the cell is there with it
        return {("sample", kept.SAMPLES): self._keeping.time(group.kept_units)}

    def _watch(self, group: SampleGroup) -> list[int]:
        watch = Stopwatch()
        reads.begin(watch)
        try:
            watch.start(monotonic_ns(), thread_time_ns())
            self.source.fetch(group.units)
            watch.stop(monotonic_ns(), thread_time_ns())
        finally:
            reads.finish()
        return watch.wall

    def _time_raw(self, group: SampleGroup, *, is_cold: bool) -> dict[tuple[str, str], float]:
        way = file_reads.COLD if is_cold else file_reads.WARM
        if is_cold and not self._drop(group, way):
            return {}
        return {("read", way): file_reads.time_reads(group.files) / group.samples}

    def _drop(self, group: SampleGroup, way: str) -> bool:
        why = file_reads.drop(group.files)
        if why is not None:
            self._absent["read"][way] = why
        return why is None

    def _time_decoder(
        self, decoder: decoders.Decoder, group: SampleGroup
    ) -> dict[tuple[str, str], float]:
        start = monotonic_ns()
        if decoder.decode_batch is not None:
            decoder.decode_batch(group.encoded)
        else:
            for data in group.encoded:
                decoder.decode(data)
        return {("decode", decoder.name): (monotonic_ns() - start) / group.samples}

    def _time_shrink(
        self, decoder: decoders.Decoder, group: SampleGroup
    ) -> dict[tuple[str, str], float]:
        """Time shrinking what a decoder gives: the smaller it is, the less is left to do."""
        if decoder.scale == 1 and decoder.name != decoders.PRESENT:
            return {}
        pictures = [decoder.decode(data) for data in group.encoded[:_MAX_SHRUNK]]
        start = monotonic_ns()
        for picture in pictures:
            decoders.shrink(picture, self._shrinks[0])
        return {("shrink", decoder.name): (monotonic_ns() - start) / len(pictures)}

    # ── Batches, pixels ─────────────────────────────────────────────────────────────────────────

    def make_batch(self, way: str) -> Any:
        """Return a batch as it is now, or another way."""
        return self._batch.make(way)

    def describe_batch(self) -> dict[str, Any]:
        """Return what a batch is like."""
        return self._batch.describe()

    def differences(self) -> list[dict[str, Any]]:
        """Return how far the pixels of other ways are off the present ones."""
        encoded = [data for group in self._groups for data in group.encoded]
        compared = (
            pixels.compare_decoders(self._decoders, encoded, self._shrinks)
            if self._decoders
            else []
        )
        return [*compared, *self._batch.differences()]

    def encoded(self, number: int) -> list[bytes]:
        """Return the JPEG pictures of a group."""
        return self._groups[number].encoded

    def facts(self) -> dict[str, Any]:
        """Return what is known of the samples."""
        return {
            "library": self._library,
            "shrink": self._shrink or 1,
            "absent": self._absent,
        }


def _time_kept_pictures(group: SampleGroup) -> dict[tuple[str, str], float]:
    return {("decode", kept.PICTURES): kept.time_pictures(group.encoded)}
