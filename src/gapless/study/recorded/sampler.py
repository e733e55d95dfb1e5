"""When samplers chose samples, for long: the training thread's own work, whoever makes batches."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from gapless import wire
from gapless.accounting.intervals import Lane, cover, union
from gapless.accounting.run_row import RUN_LEAF
from gapless.study.recorded.pieces import Pieces
from gapless.study.recorded.training import Training

SAMPLER: Final = RUN_LEAF["data.sampler"]


def sampling(training: Training, loaders: Sequence[int]) -> Lane:
    """Give when samplers of some loaders chose samples on the training thread, for long."""
    marks = training.process.marks
    rows = (marks.kind == wire.SAMPLER) & np.isin(marks.subject, loaders)
    rows &= marks.thread == training.edges.thread
    return union(marks.start[rows], marks.end[rows])


def to_sampler(pieces: Pieces, chosen: Lane) -> Pieces:
    """Charge what a sampler took to it, whatever it was charged to: it is the training thread's."""
    cut = cover(chosen, pieces.start, pieces.end)
    leaf = np.where(cut.piece >= 0, SAMPLER, pieces.leaf[cut.query])
    return Pieces(pieces.wait[cut.query], cut.start, cut.end, leaf)
