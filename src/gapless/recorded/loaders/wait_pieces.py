"""The pieces into which waits for data are cut, each with the leaf that it is charged to."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from gapless.model.trace import Int64
from gapless.recorded.training.edges import Bool


class WaitPieces(Struct, frozen=True):
    """Pieces that tile waits: which wait, from when to when, which run leaf."""

    wait: Int64
    start: Int64
    end: Int64
    leaf: Int64

    def take(self, rows: Int64 | Bool) -> "WaitPieces":
        """Select pieces."""
        return WaitPieces(self.wait[rows], self.start[rows], self.end[rows], self.leaf[rows])


def spread_pieces(pieces: WaitPieces, weights: Int64, leaves: Int64) -> WaitPieces:
    """Lay the leaves of each piece out in order, in proportion to weights (one row a piece)."""
    cumulative = np.cumsum(weights.astype(np.float64), axis=1)
    lengths = (pieces.end - pieces.start)[:, None]
    edges = np.floor(cumulative / cumulative[:, -1:] * lengths).astype(np.int64)
    edges[:, -1:] = lengths
    bounds = pieces.start[:, None] + np.concatenate((np.zeros_like(lengths), edges), axis=1)
    return WaitPieces(
        np.repeat(pieces.wait, len(leaves)),
        bounds[:, :-1].ravel(),
        bounds[:, 1:].ravel(),
        np.tile(leaves, len(weights)),
    )


def stack_pieces(tables: Sequence[WaitPieces]) -> WaitPieces:
    """Put pieces together in order of time; those of no length are dropped."""
    combined = WaitPieces(
        np.concatenate([table.wait for table in tables]).astype(np.int64),
        np.concatenate([table.start for table in tables]).astype(np.int64),
        np.concatenate([table.end for table in tables]).astype(np.int64),
        np.concatenate([table.leaf for table in tables]).astype(np.int64),
    )
    nonempty = combined.take(combined.end > combined.start)
    return nonempty.take(np.lexsort((nonempty.start, nonempty.wait)))
