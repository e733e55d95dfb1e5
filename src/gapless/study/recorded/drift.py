"""How far so few steps as a window holds are off the usual one: hosts drift, and steps vary.

Neighbouring steps are alike (their autocorrelation is 0.3 to 0.8), so that the mean of n of them is
off by more than a single one's spread over the root of n. So it is seen from blocks of steps in a
row, as many as a window holds, of those that no profiler touched and that lie beside windows. What
steps wait for data, and what is seldom, is left out: windows are compared without.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from gapless import wire
from gapless.accounting.intervals import overlap, union
from gapless.model.trace import Int64
from gapless.replay.nodes import Float
from gapless.study.recorded.edges import Bool
from gapless.study.recorded.training import Training, counted

_BLOCKS: Final = 10  # on either side of a window
_FEWEST: Final = 5  # blocks, or nothing is known
_USUAL: Final = 4  # steps of a window, where there is none to count
_SHARE: Final = 0.9
_ASIDE: Final = (
    wire.NEXT,
    wire.COLLECTOR,
    wire.CHECKPOINT,
    wire.LOGGING,
    wire.PROFILING,
    wire.OBSERVER,
)


def drift(every: Sequence[Training]) -> float | None:
    """Give by what share of it blocks of steps miss the median step: nine in ten by no more.

    Of several ranks the most; ``None`` where there are too few steps to tell.
    """
    known = [one for training in every if (one := _drift(training)) is not None]
    return max(known, default=None)


def _drift(training: Training) -> float | None:
    many, usual = _held(training), _lengths(training)
    rows = np.flatnonzero(counted(training) & training.edges.noted)[1:]  # the first makes ready
    if len(rows) < _FEWEST * many:
        return None
    middle = float(np.median(usual[rows]))
    blocks = np.lib.stride_tricks.sliding_window_view(rows, many)
    blocks = blocks[blocks[:, -1] - blocks[:, 0] == many - 1]  # in a row
    blocks = blocks[_beside(training, blocks, many)]
    if len(blocks) < _FEWEST or middle <= 0:
        return None
    means = np.median(usual[blocks], axis=1)
    return float(np.quantile(np.abs(means / middle - 1), _SHARE))


def _beside(training: Training, blocks: Int64, many: int) -> Bool:
    """Tell which blocks lie beside a window; all if too few do."""
    ends, near = training.edges.ends, np.zeros(len(blocks), bool)
    for one in training.process.windows:
        first, last = np.searchsorted(ends, (one.start, one.end))
        reach = _BLOCKS * many
        near |= (blocks[:, -1] >= first - reach) & (blocks[:, 0] <= last + reach)
    return near if near.sum() >= _FEWEST else np.ones(len(blocks), bool)


def _held(training: Training) -> int:
    """Give how many steps windows hold."""
    many = [one.last_step - one.first_step for one in training.process.windows if not one.stacks]
    return max(1, int(np.median(many))) if many else _USUAL


def _lengths(training: Training) -> Float:
    """Give the length of each step without waits for data and what is seldom, in ns."""
    marks, ends = training.process.marks, training.edges.ends
    aside = np.isin(marks.kind, _ASIDE) & (marks.thread == training.edges.thread)
    taken = union(marks.start[aside], marks.end[aside])
    return (np.diff(ends) - overlap(taken, ends[:-1], ends[1:])).astype(np.float64)
