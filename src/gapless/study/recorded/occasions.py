"""How surely it is known what the lumps of a run (checkpoints, evaluation …) take of a step.

They are measured one by one, by marks around them. How much step times vary says nothing of them:
what blurs their share of a run is how much they differ from one another, and where the run happens
to begin and to end between two of them.
"""

from math import hypot, sqrt
from statistics import NormalDist
from typing import Final

import numpy as np

from gapless.accounting.intervals import cover
from gapless.accounting.run_row import RUN_LEAVES, RunRow
from gapless.model.trace import Int64
from gapless.study.recorded.account import LUMPY, leaf_of
from gapless.study.recorded.rows import Charged, exposed_row
from gapless.study.recorded.training import regular

_FEWEST: Final = 3  # occasions from which on it is told how much they vary
_EDGE: Final = 0.5  # of an occasion: by so much their count is off, that of the steps being given
_TAIL: Final = NormalDist().inv_cdf(0.95)


def spreads(one: Charged, backlog: int) -> dict[str, float]:
    """Give by leaf of the account the relative half-width of the 90 % interval of a lump's mean.

    All that a leaf has in one step is one occasion. Leaves of fewer than three are left out.
    """
    if len(one.training.edges.ends) < 2:  # noqa: PLR2004 - nothing lies between
        return {}
    row = exposed_row(one, backlog)
    found = dict[str, float]()
    named = [leaf_of(leaf) for leaf in RUN_LEAVES]
    for name in LUMPY.values():
        mine = np.array([leaf == name for leaf in named])[row.leaf]
        lengths = _by_step(one, RunRow(row.start[mine], row.end[mine], row.leaf[mine], row.culprit))
        if len(lengths) >= _FEWEST:
            found[name] = _spread(lengths)
    return found


def _by_step(one: Charged, row: RunRow) -> Int64:
    """Give the time of some pieces in each counted step that has any and was noted by itself."""
    lane = regular(one.training)
    cut = cover(lane, row.start, row.end)
    inside = cut.piece >= 0
    held = np.zeros(len(lane), np.int64)
    np.add.at(held, cut.piece[inside], (cut.end - cut.start)[inside])
    noted = one.training.edges.noted[lane.owner]
    return held[noted & (held > 0)]


def _spread(lengths: Int64) -> float:
    """Give the half-width for so many occasions, by Student's distribution.

    Its quantile by the first terms of Cornish and Fisher's expansion.
    """
    many, free = len(lengths), len(lengths) - 1
    quantile = _TAIL + (_TAIL**3 + _TAIL) / (4 * free)
    quantile += (5 * _TAIL**5 + 16 * _TAIL**3 + 3 * _TAIL) / (96 * free**2)
    varies = float(lengths.std(ddof=1) / lengths.mean()) / sqrt(many)
    return quantile * hypot(varies, _EDGE / many)
