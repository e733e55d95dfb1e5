"""Measure what a block of a test trains: it is recorded in this process, and read at its end."""

import math
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
from msgspec import Struct

from gapless import wire
from gapless.errors import GaplessError, UsageError
from gapless.gate.baseline import MachineKind, read_machine
from gapless.gate.figures import NEW, ArmFigures, read_figures
from gapless.launch.environment import RecorderSettings
from gapless.launch.run.in_process import record
from gapless.model.recording import Process, Recording
from gapless.model.trace import Int64
from gapless.study import Options, study_recording
from gapless.testing.limits import Limits
from gapless.verify.arms.steady import ArmSteps, read_steps

MIN_STEPS: Final = 10  # that count: behind the warm-up, outside windows
_NORMAL_95: Final = 1.96
_TO_HOST: Final = "DtoH"


class BlockFigures(Struct, frozen=True):
    """What a block of a test took."""

    steps: int  # that the times are of
    step_ns: int  # median
    low_ns: int  # 95 % interval of the median
    high_ns: int
    arm: ArmFigures  # its account
    syncs: float | None  # a step; None: no device was seen in a window
    machine: MachineKind
    run: str  # folder


@contextmanager
def record_block(limits: Limits, out: Path) -> Generator[Path]:
    """Record a block of a test into a new run below a folder; yield that of the run.

    Raises ``UsageError`` where this process is recorded already.
    """
    if os.environ.get(wire.SPOOL):
        raise UsageError(
            "this test is recorded already: a budget holds neither below gapless run nor within "
            "another budget"
        )
    with record(out, RecorderSettings(windows=limits.needs_windows)) as run:
        yield run


def read_block(recording: Recording, limits: Limits) -> BlockFigures:
    """Return the figures of a recorded block. Raises ``GaplessError`` for one of too few steps."""
    steps = read_steps(recording)
    if steps is None:
        raise GaplessError(
            "the block made no two steps: no optimizer stepped and no loader gave batches "
            f"(its records: {recording.path})"
        )
    lengths = _counted_lengths(steps, recording)
    if len(lengths) < MIN_STEPS:
        raise GaplessError(
            f"of {len(steps.ends)} steps {len(lengths)} count, behind the warm-up and outside "
            f"windows of the profiler; a budget needs {MIN_STEPS}: let the test train longer"
        )
    low_ns, high_ns = _median_interval(lengths)
    windowed = limits.needs_windows
    return BlockFigures(
        steps=len(lengths),
        step_ns=int(np.median(lengths)),
        low_ns=low_ns,
        high_ns=high_ns,
        arm=read_figures(recording, NEW, 0, Path.cwd(), windowed=windowed),
        syncs=_count_syncs(recording) if limits.syncs is not None else None,
        machine=read_machine(recording),
        run=recording.path,
    )


def _counted_lengths(steps: ArmSteps, recording: Recording) -> Int64:
    """Return the lengths of steps behind the warm-up that no window was in, nor just before."""
    is_profiled = np.zeros(len(steps.lengths), bool)
    starts, ends = steps.ends[:-1], steps.ends[1:]
    for process in _trainings(recording):
        for window in process.windows:
            is_inside = (ends >= window.start) & (starts <= window.end)
            is_profiled |= is_inside
            is_profiled[1:] |= is_inside[:-1]  # its file was written then
    is_counted = ~is_profiled
    is_counted[: steps.n_warm_up] = False
    return steps.lengths[is_counted]


def _median_interval(lengths: Int64) -> tuple[int, int]:
    """Return the 95 % interval of the median, by the ranks of the binomial distribution."""
    ordered = np.sort(lengths)
    count = len(ordered)
    half_width = _NORMAL_95 * math.sqrt(count) / 2
    low = max(0, math.floor((count - 1) / 2 - half_width))
    high = min(count - 1, math.ceil((count - 1) / 2 + half_width))
    return int(ordered[low]), int(ordered[high])


def _count_syncs(recording: Recording) -> float | None:
    """Return copies to the host and calls of ``synchronize()``, a step; ``None``: no device."""
    study = study_recording(recording, Options(diagnose=False))
    if study.account.steps is None or study.recorded is None or not study.tables.kernels:
        return None
    copies = sum(copy.calls for copy in study.tables.copies if copy.direction == _TO_HOST)
    marks = sum(int((process.marks.kind == wire.SYNC).sum()) for process in _trainings(recording))
    n_steps = 0 if study.recorded.steps is None else study.recorded.steps.count
    return copies / max(1, study.account.steps) + marks / max(1, n_steps)


def _trainings(recording: Recording) -> tuple[Process, ...]:
    return tuple(process for process in recording.processes if process.role == "training")
