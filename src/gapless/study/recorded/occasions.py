"""How often lumps of a run (checkpoints, evaluation …) come, and how surely their share is known.

They are measured one by one, by marks around them. How much step times vary says nothing of them:
what blurs their share of a run is how much they differ from one another, and where the run happens
to begin and to end between two of them. What was seen once or twice may come back tomorrow or
never: its share of a short recording is no share of the training.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import hypot, sqrt
from statistics import NormalDist
from typing import Final

import numpy as np

from gapless.accounting.intervals import Lane, cover
from gapless.accounting.run_row import RUN_LEAVES, RunRow
from gapless.model.rhythm import Sighting
from gapless.model.trace import Int64
from gapless.study.recorded.account import LUMPY, leaf_of
from gapless.study.recorded.rows import Charged, exposed_row
from gapless.study.recorded.training import regular

_FEWEST: Final = 3  # occasions: from the first to the third are two whole periods
_EDGE: Final = 0.5  # of an occasion: by so much their count is off, that of the steps being given
_ALIKE: Final = 0.1  # by such a share at most regular distances differ
_TAIL: Final = NormalDist().inv_cdf(0.95)
_TURN: Final = "idle.data.start-up"  # an iteration begins with the run, too
_UNKNOWN: Final = 1.0  # as likely as not it never comes back, or comes twice as often


@dataclass(frozen=True)
class Occasions:
    """What some pieces of a run are: in which steps, and how long in each."""

    steps: Int64  # the number of the step in which each lies
    lengths: Int64  # of those in counted steps that were noted one by one
    each_ns: int
    total: int  # steps of the run

    @property
    def distances(self) -> Int64:
        """Give the steps between one and the next."""
        return np.diff(self.steps)

    def period(self, *, begins: bool) -> float | None:
        """Give the steps from one to the next, once two whole periods were seen, else ``None``.

        Two occasions tell where the first came as long after the beginning, or what ``begins`` with
        the run is an occasion itself.
        """
        seen = self.distances
        if len(self.steps) == _FEWEST - 1:
            first = self.steps[:1] + 1
            seen = np.concatenate((first, seen)) if begins or _alike(first, seen) else seen
        return float(seen.mean()) if len(seen) >= _FEWEST - 1 else None

    def fits(self, period: float) -> bool:
        """Tell whether they came as regularly as that all the time, and go on."""
        most = period * (1 + _ALIKE) + 1
        first, last = int(self.steps[0]), self.total - int(self.steps[-1])
        return _alike(self.distances, np.array([period])) and max(first, last) <= most


def occasions(one: Charged, backlog: int) -> dict[str, Occasions]:
    """Give by leaf of the account what lumps a process had between its steps."""
    edges = one.training.edges
    if len(edges.ends) < 2:  # noqa: PLR2004 - nothing lies between
        return {}
    row = exposed_row(one, backlog)
    found = dict[str, Occasions]()
    named = [leaf_of(leaf) for leaf in RUN_LEAVES]
    between = Lane(edges.ends[:-1], edges.ends[1:], np.arange(len(edges.ends) - 1))
    number = np.cumsum(edges.many) - edges.many
    lane = regular(one.training)
    for name in LUMPY.values():
        mine = np.array([leaf == name for leaf in named])[row.leaf]
        pieces = RunRow(row.start[mine], row.end[mine], row.leaf[mine], row.culprit)
        held = _held(between, pieces)
        if held.any():
            counted = _held(lane, pieces)
            found[name] = Occasions(
                steps=number[held > 0],
                lengths=counted[edges.noted[lane.owner] & (counted > 0)],
                each_ns=round(float(held[held > 0].mean())),
                total=int(edges.many.sum()),
            )
    return found


def sightings(found: Mapping[str, Occasions]) -> dict[str, Sighting]:
    """Give by leaf how often something was seen, and how many steps lie between."""
    return {
        leaf: Sighting(
            count=len(some.steps),
            each_ns=some.each_ns,
            period=some.period(begins=leaf == _TURN),
            at_start=len(some.steps) == 1 and some.steps[0] == 0 and some.total > 1,
        )
        for leaf, some in found.items()
    }


def spreads(found: Mapping[str, Occasions]) -> dict[str, float]:
    """Give by leaf of the account the relative half-width of the 90 % interval of a lump's mean.

    All that a leaf has in one step is one occasion.
    """
    return {leaf: _spread(some, begins=leaf == _TURN) for leaf, some in found.items()}


def _spread(some: Occasions, *, begins: bool) -> float:
    """Give the half-width: of regular ones how far off their share of this recording is.

    Of others the edges of the recording blur their count.
    """
    period, many = some.period(begins=begins), len(some.lengths)
    if period is None or not many:
        return _UNKNOWN
    varies = float(some.lengths.std(ddof=1) / some.lengths.mean()) / sqrt(many) if many > 1 else 0.0
    if some.fits(period):
        off = some.total / period / len(some.steps) - 1
        return hypot(_quantile(max(many, _FEWEST)) * varies, off)
    if many < _FEWEST:
        return _UNKNOWN
    return _quantile(many) * hypot(varies, _EDGE / many)


def _quantile(many: int) -> float:
    """Give that of Student's distribution, by the first terms of Cornish and Fisher's expansion."""
    free = many - 1
    found = _TAIL + (_TAIL**3 + _TAIL) / (4 * free)
    return found + (5 * _TAIL**5 + 16 * _TAIL**3 + 3 * _TAIL) / (96 * free**2)


def _held(lane: Lane, pieces: RunRow) -> Int64:
    """Give how much of some pieces lies in each piece of a lane."""
    cut = cover(lane, pieces.start, pieces.end)
    inside = cut.piece >= 0
    held = np.zeros(len(lane), np.int64)
    np.add.at(held, cut.piece[inside], (cut.end - cut.start)[inside])
    return held


def _alike(some: Int64, others: Int64 | np.ndarray[tuple[int], np.dtype[np.float64]]) -> bool:
    """Tell whether some distances are those of others, by a step or a tenth."""
    usual = float(others.mean())
    return bool((np.abs(some - usual) <= max(1.0, _ALIKE * usual)).all())
