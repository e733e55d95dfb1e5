"""Pieces that waits for data are cut into, each with the leaf that it is charged to."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gapless.model.trace import Int64
from gapless.study.recorded.edges import Bool


@dataclass(frozen=True)
class Pieces:
    """Pieces that tile waits: which wait, from when to when, which run leaf."""

    wait: Int64
    start: Int64
    end: Int64
    leaf: Int64

    def take(self, rows: Int64 | Bool) -> "Pieces":
        """Select pieces."""
        return Pieces(self.wait[rows], self.start[rows], self.end[rows], self.leaf[rows])


def spread(whole: Pieces, weights: Int64, leaves: Int64) -> Pieces:
    """Lay the leaves of each piece out in order, as long as their weights (one row a piece) say."""
    upto = np.cumsum(weights.astype(np.float64), axis=1)
    length = (whole.end - whole.start)[:, None]
    edges = np.floor(upto / upto[:, -1:] * length).astype(np.int64)
    edges[:, -1:] = length
    bounds = whole.start[:, None] + np.concatenate((np.zeros_like(length), edges), axis=1)
    return Pieces(
        np.repeat(whole.wait, len(leaves)),
        bounds[:, :-1].ravel(),
        bounds[:, 1:].ravel(),
        np.tile(leaves, len(weights)),
    )


def stacked(parts: Sequence[Pieces]) -> Pieces:
    """Put pieces together in order of time; those of no length are dropped."""
    every = Pieces(
        np.concatenate([part.wait for part in parts]).astype(np.int64),
        np.concatenate([part.start for part in parts]).astype(np.int64),
        np.concatenate([part.end for part in parts]).astype(np.int64),
        np.concatenate([part.leaf for part in parts]).astype(np.int64),
    )
    real = every.take(every.end > every.start)
    return real.take(np.lexsort((real.start, real.wait)))
