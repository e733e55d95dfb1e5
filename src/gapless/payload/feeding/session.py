"""Measure a loader's samples and batches in rounds, until all were had or the time is over."""

from __future__ import annotations

import random
import time
from typing import Any

from ..loading import loader_facts
from . import batches, collating, device, maker
from .remote import LocalMaker, RaisedError, RemoteMaker, WorkerDiedError
from .result import Result, describe_error
from .source import SampleSource

_GROUPS = 16  # of all samples
_MIN_GROUPS = 3  # a cell that was timed so often has an interval
_LOOK_SHARE = 0.3  # of the time, for looking at samples before they are timed
_MAX_ROUNDS = 32
_MAX_FILES = 4_000
FROM_WORKER = "from a worker"
_NO_WORKER = "the loader has no workers; the row is what one would need"


def measure(loader: Any, plan: dict[str, Any], result: Result) -> None:
    """Measure all that can be, and write it; ``plan``: {"samples", "seconds"}."""
    result.report_progress("drawing samples")
    values = loader_facts.values(loader)
    source = SampleSource(loader, int(plan["samples"]))
    result.describe(
        **values,
        collates_itself=not source.makes_batches,
        batch_units=source.batch_units,
    )
    result.write()  # should this process die now, it is known what it was at
    if not source.units:
        result.fail("no-samples", "the loader's sampler draws no sample")
        return
    session = _Session(loader, source, plan, result)
    try:
        session.look()
        if session.samples:
            session.open_device()
            session.compare()
            session.go_through_rounds()
        session.finish()
    except WorkerDiedError as error:
        result.fail("worker-died", str(error))
    except RaisedError as error:
        result.fail("raised", f"making samples raised {error}")
    except Exception as error:
        result.fail("raised", f"making samples raised {describe_error(error)}")


class _Session:
    """One measurement: who makes samples, what there is to time."""

    def __init__(
        self, loader: Any, source: SampleSource, plan: dict[str, Any], result: Result
    ) -> None:
        self._loader, self._result = loader, result
        self._seconds = float(plan["seconds"])
        self._began = time.monotonic()
        self._random = random.Random(0)  # noqa: S311 - an order
        self._has_workers = loader.num_workers > 0
        self._maker = maker.Maker(source, is_worker=self._has_workers)
        self._remote: Any = None
        if self._has_workers:
            self._remote = RemoteMaker(self._maker, loader)
        self._calls: Any = self._remote or LocalMaker(self._maker)
        self._cells: list[list[str]] = []  # by group
        self._encoded: list[int] = []
        self._failed: set[str] = set()
        self._batch: dict[str, Any] = {}
        self._gpu_decoder: Any = None
        self._has_device = False
        self._files: dict[str, None] = {}
        self.samples = 0

    # ── Looking ─────────────────────────────────────────────────────────────────────────────────

    def look(self) -> None:
        """Make samples once, in groups, until all were had or a part of the time is over."""
        while not self._is_late(_LOOK_SHARE) or len(self._cells) < _MIN_GROUPS:
            report = self._calls.call("add_group", _GROUPS)
            if report is None:
                break
            if report.cells:
                self.samples += report.samples
                self._cells.append(report.cells)
                self._encoded.append(report.encoded)
            self._files.update(dict.fromkeys(report.files))
            for sentence in report.raised:
                self._result.note(f"left out: {sentence}")
            self._result.report_progress(f"looking at samples: {self.samples}")
        if not self.samples:
            self._result.fail("no-samples", "no sample could be made")
            return
        self._batch = self._calls.call("describe_batch")
        if "why" in self._batch:
            self._result.set_absent(batches.COLLATE, batches.NOW, self._batch["why"])
        self._result.describe(batch=self._batch, samples=self.samples)
        self._result.set_files(list(self._files)[:_MAX_FILES])

    def open_device(self) -> None:
        """Find out whether there is a device, and whether pictures can be decoded on it."""
        why = device.explain_lack()
        self._has_device = why is None
        if why is not None:
            for stage in (device.PIN, device.COPY):
                self._result.set_absent(stage, batches.NOW, why)
            return
        if not any(self._encoded):
            return
        number = next(index for index, count in enumerate(self._encoded) if count)
        try:
            decoder = device.GpuDecoder()
            decoder.decode(self._calls.call("encoded", number)[:2])
            self._gpu_decoder = decoder
        except ImportError:
            self._result.set_absent("decode", device.NVJPEG, "torchvision is not installed")
        except Exception as error:
            self._result.set_absent("decode", device.NVJPEG, describe_error(error))

    # ── Rounds ──────────────────────────────────────────────────────────────────────────────────

    def go_through_rounds(self) -> None:
        """Time every cell in each round, a group of samples a round, in an order of its own."""
        self._open_remote()
        self._warm_up()
        for number in range(_MAX_ROUNDS):
            group = number % len(self._cells)
            if number >= _MIN_GROUPS and self._is_late(1.0):
                self._result.note(f"the time was over after {number} rounds")
                break
            self._result.report_progress(f"measuring: round {number + 1}")
            acts = self._acts(group)
            self._random.shuffle(acts)
            for name, act in acts:
                self._try(name, act)
            self._result.write()

    def _acts(self, group: int) -> list[tuple[str, Any]]:
        acts: list[tuple[str, Any]] = [
            (cell, lambda cell=cell: self._calls.call("run", cell, group))
            for cell in self._cells[group]
        ]
        if self._remote is not None and "ways" in self._batch:
            acts += [
                (f"hand over {way}", lambda way=way: self._hand_over(way))
                for way in self._batch["ways"]
            ]
        if self._gpu_decoder is not None and self._encoded[group]:
            acts.append((device.NVJPEG, lambda: self._decode_on_gpu(group)))
        return acts

    def _try(self, name: str, act: Any) -> None:
        """Time one cell; one that raises is left out from then on, with the reason."""
        if name in self._failed:
            return
        try:
            self._result.add(act())
        except WorkerDiedError:
            raise
        except Exception as error:
            self._failed.add(name)
            self._result.note(f"not measured: {name}: {_reason(error)}")

    def _open_remote(self) -> None:
        """Fork a process that hands batches over, where the loader itself has no workers."""
        if self._remote is not None or "ways" not in self._batch:
            return
        if self._batch["on_device"]:
            self._result.set_absent(
                batches.HAND_OVER, batches.NOW, "batches are made on the device"
            )
            return
        self._result.set_absent(batches.HAND_OVER, batches.NOW, _NO_WORKER)
        try:
            self._remote = RemoteMaker(self._maker.as_worker(), self._loader)
        except Exception as error:  # a daemon may have no children
            self._result.note(f"no process can be forked here: {describe_error(error)}")

    def _warm_up(self) -> None:
        """Do once what is longer the first time: queues, buffers, the device."""
        for way in self._batch.get("ways", ()):
            if self._remote is not None:
                self._try(f"hand over {way}", lambda way=way: self._hand_over(way) and {})

    def _hand_over(self, way: str) -> dict[tuple[str, str], float]:
        took, batch = self._remote.hand_over(way)
        samples = self._batch["samples"]
        variant = FROM_WORKER if not self._has_workers and way == batches.NOW else way
        start = time.monotonic_ns()
        collating.touch(batch)
        touch_ns = time.monotonic_ns() - start
        figures = {(batches.HAND_OVER, variant): took / samples}
        if self._has_device and way not in (batches.TENSORS, batches.RECYCLED):
            is_pinned = bool(self._loader.pin_memory)
            figures.update(device.time_copies(batch, samples, is_pinned=is_pinned, variant=way))
            figures.update(device.time_floats(batch, samples) if way == batches.NOW else {})
        start = time.monotonic_ns()
        del batch
        figures[batches.TOUCH, variant] = (touch_ns + time.monotonic_ns() - start) / samples
        return figures

    def _decode_on_gpu(self, group: int) -> dict[tuple[str, str], float]:
        encoded = self._calls.call("encoded", group)
        return self._gpu_decoder.time(encoded, len(encoded))

    def compare(self) -> None:
        """Compare the pixels of other ways with the present ones."""
        self._result.report_progress("comparing pixels")
        try:
            differences = self._calls.call("differences")
            if self._gpu_decoder is not None:
                number = next(index for index, count in enumerate(self._encoded) if count)
                encoded = self._calls.call("encoded", number)
                differences.append(self._gpu_decoder.difference(encoded))
            self._result.set_pixels(differences)
        except WorkerDiedError:
            raise
        except Exception as error:
            self._result.note(f"pixels were not compared: {_reason(error)}")
        self._take_facts()

    def _take_facts(self) -> None:
        facts = self._calls.call("facts")
        for stage, reasons in facts["absent"].items():
            for variant, why in reasons.items():
                self._result.set_absent(stage, variant, why)
        self._result.describe(library=facts["library"], shrink=facts["shrink"])

    def finish(self) -> None:
        """Write all of it, and end the process that made samples."""
        if not self.samples:
            return
        self._take_facts()
        self._result.end()
        if self._remote is not None:
            self._remote.close()

    def _is_late(self, share: float) -> bool:
        return time.monotonic() - self._began > share * self._seconds


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, RaisedError) else describe_error(error)
