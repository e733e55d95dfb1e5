"""Kinds of steps: how many of a run's steps each row of its windows stands for.

A training may alternate: fifteen updates of 2 ms, then a rollout of 70 ms. A window of four steps
stands for the kinds that it holds. What a kind weighs is told by the marks of all steps; what steps
of a kind that no window holds are made of is not known, and is not made up from others.

Without a device alone: the steps of a host that runs ahead tell nothing of its device's. Where
others had processors, too, steps of one kind take all lengths: there a kind is one only if its own
steps are alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gapless.accounting.intervals import cover
from gapless.accounting.run_row import RUN_LEAF
from gapless.model.rhythm import Unlike
from gapless.model.trace import Int64
from gapless.study.recorded.rows import Charged, exposed_row
from gapless.study.recorded.training import regular

_APART: Final = 2.5  # times as long: rows of another kind
_LONGER: Final = 2.0  # times the longest row: hosts drift by a third, and windows only slow steps
_GAP: Final = 1.5  # times as long as the next shorter step: behind it another kind begins
_SHORTER: Final = 4.0  # times shorter than the shortest row, which a profiler may have doubled
_ALIKE: Final = 1.5  # times as long is the 90th percentile of a kind's steps as the 10th
_MUCH: Final = 0.1  # of the time: less than that are a few steps that something held up
_WHOLE: Final = 1_000_000  # into so many parts weights are cut


@dataclass(frozen=True)
class Kinds:
    """What the rows of windows stand for."""

    weights: tuple[int, ...] | None  # of each row; ``None``: all alike
    unlike: Unlike | None  # steps that are like none of them, if they take much


def inside(every: Sequence[Charged]) -> Int64:
    """Give the lengths of the counted steps that were noted one by one, without lumps and waits."""
    found = [np.empty(0, np.int64)]
    for one in every:
        edges = one.training.edges
        if len(edges.ends) < 2:  # noqa: PLR2004 - nothing lies between
            continue
        row, lane = exposed_row(one, 0), regular(one.training)
        mine = row.leaf == RUN_LEAF["step"]
        cut = cover(lane, row.start[mine], row.end[mine])
        within = cut.piece >= 0
        held = np.zeros(len(lane), np.int64)
        np.add.at(held, cut.piece[within], (cut.end - cut.start)[within])
        found.append(held[edges.noted[lane.owner]])
    return np.concatenate(found)


def kinds(lengths: Int64, rows: Int64, *, alone: bool = True) -> Kinds:
    """Tell which steps the rows of windows stand for, by their lengths.

    ``alone``: nobody else used the processors.
    """
    if not len(lengths) or not len(rows) or rows.min() <= 0:
        return Kinds(None, None)
    longest = max(_LONGER * float(rows.max()), _before_gap(lengths, float(rows.max())))
    like = (lengths <= longest) & (lengths * _SHORTER >= rows.min())
    away = int(lengths[~like].sum()) / max(1, int(lengths.sum()))
    if away < _MUCH:
        return Kinds(_weights(lengths, rows), None)
    if not alone and not (_is_tight(lengths[~like]) and _is_tight(lengths[like])):
        return Kinds(None, None)
    unlike = Unlike(
        steps=float((~like).mean()), time=away, mean_ns=round(float(lengths[~like].mean()))
    )
    return Kinds(_weights(lengths[like], rows) if like.any() else None, unlike)


def _is_tight(lengths: Int64) -> bool:
    """Tell whether steps are alike; none are no kind that noise could have torn apart."""
    if not len(lengths):
        return True
    low, high = np.percentile(lengths, (10, 90))
    return bool(high <= _ALIKE * low)


def _before_gap(lengths: Int64, start: float) -> float:
    """Return the length behind which no step is longer, or only steps far longer are.

    Kinds lie apart. A host that others use makes steps of all lengths, each of the same make-up.
    """
    longer = np.concatenate(([start], np.sort(lengths[lengths > start]).astype(np.float64)))
    gaps = np.flatnonzero(longer[1:] > _GAP * longer[:-1])
    return float(longer[gaps[0]]) if len(gaps) else float(longer[-1])


def _weights(lengths: Int64, rows: Int64) -> tuple[int, ...] | None:
    """Give how often each row counts: those of a kind together take the kind's share of time."""
    order = np.sort(rows)
    first = np.flatnonzero(order[1:] > _APART * order[:-1]) + 1
    if not len(first):
        return None
    bounds = np.sqrt(order[first - 1].astype(np.float64) * order[first])
    of_rows, of_steps = np.searchsorted(bounds, rows), np.searchsorted(bounds, lengths)
    size = len(bounds) + 1
    took = np.bincount(of_rows, rows, size)[of_rows]
    share = np.bincount(of_steps, lengths, size)[of_rows] / lengths.sum()
    return tuple(np.rint(_WHOLE * share * rows.mean() / took).astype(int).tolist())
