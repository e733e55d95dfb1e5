"""Which stage of loading a wait was spent in, where stages were marked (docs: the account, 7)."""

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gapless.accounting.charges import Charges, make_charges, merge_charges
from gapless.accounting.intervals import cover, empty_column
from gapless.accounting.sweep import sweep_host
from gapless.model.leaf import LEAF
from gapless.model.trace import Int64


class Stages(Struct, frozen=True):
    """The marked stages of the batch that each wait was for, in the worker that made it."""

    wait: Int64  # the event of the wait
    start: Int64
    end: Int64
    leaf: Int64  # idle.data.*
    culprit: Int64  # event of the stage, −1


NO_STAGES = Stages(empty_column(), empty_column(), empty_column(), empty_column(), empty_column())
_HAND_OVER, _OTHER_STAGE = LEAF["idle.data.hand-over"], LEAF["idle.data.other"]
_UNSTAGED = LEAF["idle.data.unstaged"]


def split_by_stage(waits: Charges, stages: Stages) -> Charges:
    """Cut stretches of waiting (``culprit`` is the wait) by stage.

    A wait without stages stays as it is. Between stages it is ``other``, after the last one
    ``hand-over``, before the first one ``unstaged``.
    """
    has_stages = np.isin(waits.culprit, stages.wait[stages.end > stages.start])
    if not has_stages.any():
        return waits
    parts = [waits.take(~has_stages)]
    parts += [
        _split_wait(waits.take(waits.culprit == wait), stages, wait)
        for wait in np.unique(waits.culprit[has_stages]).tolist()
    ]
    return merge_charges(parts)


def _split_wait(waits: Charges, stages: Stages, wait: int) -> Charges:
    rows = np.flatnonzero((stages.wait == wait) & (stages.end > stages.start))
    lane = sweep_host(stages.start[rows], stages.end[rows], np.zeros(len(rows), np.int64))
    cut = cover(lane, waits.start, waits.end)
    stage = rows[lane.owner[cut.piece]]
    first_start, last_end = lane.start[0], lane.end[-1]
    outside_leaf = np.where(
        cut.start >= last_end,
        _HAND_OVER,
        np.where(cut.start >= first_start, _OTHER_STAGE, _UNSTAGED),
    )
    inside = cut.piece >= 0
    leaf = np.where(inside, stages.leaf[stage], outside_leaf)
    culprit = np.where(inside & (stages.culprit[stage] >= 0), stages.culprit[stage], wait)
    pieces = make_charges(cut.start, cut.end, leaf, culprit, query=waits.query[cut.query])
    return replace(pieces, is_loading=waits.is_loading[cut.query])
