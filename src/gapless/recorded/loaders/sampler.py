"""When samplers chose samples for long: the training thread's own work, whoever makes batches."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from gapless import wire
from gapless.accounting.intervals import Lane, cover, union
from gapless.accounting.run_row import RUN_LEAF
from gapless.recorded.loaders.wait_pieces import WaitPieces
from gapless.recorded.training.processes import Training

SAMPLER_LEAF: Final = RUN_LEAF["data.sampler"]


def sampling_lane(training: Training, loaders: Sequence[int]) -> Lane:
    """Return when samplers of some loaders chose samples for long on the training thread."""
    marks = training.process.marks
    is_sampler = (marks.kind == wire.SAMPLER) & np.isin(marks.subject, loaders)
    is_sampler &= marks.thread == training.edges.thread
    return union(marks.start[is_sampler], marks.end[is_sampler])


def charge_sampler(pieces: WaitPieces, sampler_lane: Lane) -> WaitPieces:
    """Charge a sampler's time to it, overriding earlier charges: it is the training thread's."""
    cut = cover(sampler_lane, pieces.start, pieces.end)
    leaf = np.where(cut.piece >= 0, SAMPLER_LEAF, pieces.leaf[cut.query])
    return WaitPieces(pieces.wait[cut.query], cut.start, cut.end, leaf)
