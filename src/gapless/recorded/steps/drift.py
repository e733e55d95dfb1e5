"""How far as few steps as a window holds are off the usual one: hosts drift, and steps vary.

Neighbouring steps are alike (their autocorrelation is 0.3 to 0.8), so that the mean of n of them is
off by more than a single one's spread over the root of n. So it is measured on blocks of
consecutive steps, as many as a window holds, of those that no profiler touched and that lie next to
windows. Waits for data, and rare events, are left out: windows are compared without them.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from gapless import wire
from gapless.accounting.intervals import overlap, union
from gapless.model.trace import Int64
from gapless.recorded.training.edges import Bool
from gapless.recorded.training.processes import Training, counted_steps
from gapless.replay.graph.nodes import Float

_NEAR_BLOCKS: Final = 10  # on either side of a window
_MIN_BLOCKS: Final = 5  # blocks, or nothing is known
_USUAL_STEPS: Final = 4  # steps of a window, if there is none to count
_QUANTILE: Final = 0.9
_EXCLUDED_MARKS: Final = (
    wire.NEXT,
    wire.COLLECTOR,
    wire.CHECKPOINT,
    wire.LOGGING,
    wire.PROFILING,
    wire.OBSERVER,
)


def step_drift(trainings: Sequence[Training]) -> float | None:
    """Return by what share blocks of steps miss the median step: nine in ten by no more.

    The largest of several ranks; ``None`` where there are too few steps.
    """
    drifts = [
        training_drift
        for training in trainings
        if (training_drift := _training_drift(training)) is not None
    ]
    return max(drifts, default=None)


def _training_drift(training: Training) -> float | None:
    n_steps, lengths_ns = _steps_of_window(training), _step_lengths(training)
    rows = np.flatnonzero(counted_steps(training) & training.edges.is_single)[
        1:
    ]  # the first sets up
    if len(rows) < _MIN_BLOCKS * n_steps:
        return None
    median_ns = float(np.median(lengths_ns[rows]))
    blocks = np.lib.stride_tricks.sliding_window_view(rows, n_steps)
    blocks = blocks[blocks[:, -1] - blocks[:, 0] == n_steps - 1]  # in a row
    blocks = blocks[_is_near_window(training, blocks, n_steps)]
    if len(blocks) < _MIN_BLOCKS or median_ns <= 0:
        return None
    medians_ns = np.median(lengths_ns[blocks], axis=1)
    return float(np.quantile(np.abs(medians_ns / median_ns - 1), _QUANTILE))


def _is_near_window(training: Training, blocks: Int64, n_steps: int) -> Bool:
    """Return which blocks lie next to a window; all if too few do."""
    ends, is_near = training.edges.ends, np.zeros(len(blocks), bool)
    for window in training.process.windows:
        first_step, last_step = np.searchsorted(ends, (window.start, window.end))
        n_reach = _NEAR_BLOCKS * n_steps
        is_near |= (blocks[:, -1] >= first_step - n_reach) & (blocks[:, 0] <= last_step + n_reach)
    return is_near if is_near.sum() >= _MIN_BLOCKS else np.ones(len(blocks), bool)


def _steps_of_window(training: Training) -> int:
    """Return how many steps windows hold."""
    counts = [
        window.last_step - window.first_step
        for window in training.process.windows
        if not window.stacks
    ]
    return max(1, int(np.median(counts))) if counts else _USUAL_STEPS


def _step_lengths(training: Training) -> Float:
    """Return the length of each step without waits for data and rare events, in ns."""
    marks, ends = training.process.marks, training.edges.ends
    is_excluded = np.isin(marks.kind, _EXCLUDED_MARKS) & (marks.thread == training.edges.thread)
    excluded = union(marks.start[is_excluded], marks.end[is_excluded])
    return (np.diff(ends) - overlap(excluded, ends[:-1], ends[1:])).astype(np.float64)
