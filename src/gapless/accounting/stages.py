"""Which stage of loading a wait was spent in, where stages were marked (docs: the account, 7)."""

from dataclasses import dataclass, replace

import numpy as np

from gapless.accounting.charges import Charges, charges, joined
from gapless.accounting.intervals import cover, empty
from gapless.accounting.sweep import sweep_host
from gapless.model.leaf import LEAF
from gapless.model.trace import Int64


@dataclass(frozen=True)
class Stages:
    """The marked stages of the batch that each wait was for, in the worker that made it."""

    wait: Int64  # the event of the wait
    start: Int64
    end: Int64
    leaf: Int64  # idle.data.*
    culprit: Int64  # event of the stage, −1


NO_STAGES = Stages(empty(), empty(), empty(), empty(), empty())
_HAND_OVER, _OTHER = LEAF["idle.data.hand-over"], LEAF["idle.data.other"]
_UNSTAGED = LEAF["idle.data.unstaged"]


def staged(waits: Charges, stages: Stages) -> Charges:
    """Cut stretches of waiting (``culprit`` is the wait) by stage.

    A wait without stages stays as it is. Between stages it is ``other``, after the last one
    ``hand-over``, before the first one ``unstaged``.
    """
    known = np.isin(waits.culprit, stages.wait[stages.end > stages.start])
    if not known.any():
        return waits
    parts = [waits.take(~known)]
    parts += [
        _one(waits.take(waits.culprit == wait), stages, wait)
        for wait in np.unique(waits.culprit[known]).tolist()
    ]
    return joined(parts)


def _one(waits: Charges, stages: Stages, wait: int) -> Charges:
    mine = np.flatnonzero((stages.wait == wait) & (stages.end > stages.start))
    lane = sweep_host(stages.start[mine], stages.end[mine], np.zeros(len(mine), np.int64))
    cut = cover(lane, waits.start, waits.end)
    stage = mine[lane.owner[cut.piece]]
    first, last = lane.start[0], lane.end[-1]
    rest = np.where(cut.start >= last, _HAND_OVER, np.where(cut.start >= first, _OTHER, _UNSTAGED))
    inside = cut.piece >= 0
    leaf = np.where(inside, stages.leaf[stage], rest)
    culprit = np.where(inside & (stages.culprit[stage] >= 0), stages.culprit[stage], wait)
    made = charges(cut.start, cut.end, leaf, culprit, query=waits.query[cut.query])
    return replace(made, home=waits.home[cut.query])
