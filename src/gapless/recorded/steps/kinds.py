"""Kinds of steps: how many of a run's steps each row of its windows stands for.

A training may alternate: fifteen updates of 2 ms, then a rollout of 70 ms. A window of four steps
stands for the kinds that it holds. The weight of a kind comes from the marks of all steps; what
steps of a kind in no window consist of is not known, and is not inferred from others.

Only without a device: the steps of a host that runs ahead show nothing of its device's. Where
others also used the processors, steps of one kind take all lengths: there a kind counts only if its
own steps are alike.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from gapless.accounting.intervals import cover
from gapless.accounting.run_row import RUN_LEAF
from gapless.model.rhythm import UnlikeSteps
from gapless.model.trace import Int64
from gapless.recorded.steps.rows import TrainingRow, exposed_row
from gapless.recorded.training.processes import counted_lane

_MIN_APART_RATIO: Final = 2.5  # times as long: rows of another kind
# times the longest row: hosts drift by a third, and windows only slow steps
_MAX_LONGER_RATIO: Final = 2.0
_MIN_GAP_RATIO: Final = 1.5  # times as long as the next shorter step: there another kind begins
# times shorter than the shortest row, which a profiler may have doubled
_MAX_SHORTER_RATIO: Final = 4.0
_MAX_SPREAD_RATIO: Final = 1.5  # ratio of the 90th to the 10th percentile of a kind's steps
_MIN_UNLIKE_SHARE: Final = 0.1  # of the time: less than that is a few steps that something held up
_WEIGHT_TOTAL: Final = 1_000_000  # the number of parts into which weights are cut


class StepKinds(Struct, frozen=True):
    """What the rows of windows stand for."""

    weights: tuple[int, ...] | None  # of each row; ``None``: all alike
    unlike: UnlikeSteps | None  # steps unlike any of them, if they take much


def step_lengths(training_rows: Sequence[TrainingRow]) -> Int64:
    """Return the lengths of the counted steps recorded one by one, without lumps and waits."""
    lengths = [np.empty(0, np.int64)]
    for training_row in training_rows:
        edges = training_row.training.edges
        if len(edges.ends) < 2:  # noqa: PLR2004 - nothing lies between
            continue
        row, lane = exposed_row(training_row, 0), counted_lane(training_row.training)
        is_step = row.leaf == RUN_LEAF["step"]
        cut = cover(lane, row.start[is_step], row.end[is_step])
        is_inside = cut.piece >= 0
        lengths_ns = np.zeros(len(lane), np.int64)
        np.add.at(lengths_ns, cut.piece[is_inside], (cut.end - cut.start)[is_inside])
        lengths.append(lengths_ns[edges.is_single[lane.owner]])
    return np.concatenate(lengths)


def match_kinds(lengths: Int64, row_lengths: Int64, *, undisturbed: bool = True) -> StepKinds:
    """Return which steps the rows of windows stand for, by their lengths.

    ``undisturbed``: nobody else used the processors.
    """
    if not len(lengths) or not len(row_lengths) or row_lengths.min() <= 0:
        return StepKinds(None, None)
    longest = max(
        _MAX_LONGER_RATIO * float(row_lengths.max()),
        _length_before_gap(lengths, float(row_lengths.max())),
    )
    is_like = (lengths <= longest) & (lengths * _MAX_SHORTER_RATIO >= row_lengths.min())
    unlike_share = int(lengths[~is_like].sum()) / max(1, int(lengths.sum()))
    if unlike_share < _MIN_UNLIKE_SHARE:
        return StepKinds(_weights(lengths, row_lengths), None)
    if not undisturbed and not (_is_tight(lengths[~is_like]) and _is_tight(lengths[is_like])):
        return StepKinds(None, None)
    unlike = UnlikeSteps(
        steps=float((~is_like).mean()),
        time=unlike_share,
        mean_ns=round(float(lengths[~is_like].mean())),
    )
    return StepKinds(_weights(lengths[is_like], row_lengths) if is_like.any() else None, unlike)


def _is_tight(lengths: Int64) -> bool:
    """Return whether steps are alike, so that noise cannot have split one kind in two."""
    if not len(lengths):
        return True
    low, high = np.percentile(lengths, (10, 90))
    return bool(high <= _MAX_SPREAD_RATIO * low)


def _length_before_gap(lengths: Int64, longest_row: float) -> float:
    """Return the length above which no step is longer, or only much longer ones are.

    Kinds lie apart. A host that others use makes steps of all lengths, each of the same make-up.
    """
    longer = np.concatenate(
        ([longest_row], np.sort(lengths[lengths > longest_row]).astype(np.float64))
    )
    gaps = np.flatnonzero(longer[1:] > _MIN_GAP_RATIO * longer[:-1])
    return float(longer[gaps[0]]) if len(gaps) else float(longer[-1])


def _weights(lengths: Int64, row_lengths: Int64) -> tuple[int, ...] | None:
    """Return how often each row counts: rows of a kind together take the kind's share of time."""
    sorted_rows = np.sort(row_lengths)
    kind_starts = np.flatnonzero(sorted_rows[1:] > _MIN_APART_RATIO * sorted_rows[:-1]) + 1
    if not len(kind_starts):
        return None
    bounds = np.sqrt(sorted_rows[kind_starts - 1].astype(np.float64) * sorted_rows[kind_starts])
    row_kinds, step_kinds = np.searchsorted(bounds, row_lengths), np.searchsorted(bounds, lengths)
    n_kinds = len(bounds) + 1
    kind_times = np.bincount(row_kinds, row_lengths, n_kinds)[row_kinds]
    kind_shares = np.bincount(step_kinds, lengths, n_kinds)[row_kinds] / lengths.sum()
    return tuple(
        np.rint(_WEIGHT_TOTAL * kind_shares * row_lengths.mean() / kind_times).astype(int).tolist()
    )
