"""The steps of one rank: how long each took, and how much of that it waited for other ranks."""

from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from gapless.model.account import RowAccount

STRAGGLER_WAIT: Final = "comm.straggler_wait"  # for a rank that is known
RANK_WAITS: Final = (STRAGGLER_WAIT, "comm.wait_estimated")
Float = npt.NDArray[np.float64]


class Rank(Struct, frozen=True, dict=True):
    """The steps of one rank, from all of its windows."""

    rank: int
    rows: tuple[RowAccount, ...]
    played: bool = False  # its steps have what light marks show (``rank_marks``)

    @cached_property
    def lengths(self) -> Float:
        """Return how long each step took, in ns."""
        return np.array([row.row.end - row.row.start for row in self.rows], np.float64)

    @cached_property
    def waits(self) -> Float:
        """Return how long each step waited for the last rank, in ns."""
        return self.sums(RANK_WAITS)

    @cached_property
    def straggler_waits(self) -> Float:
        """Return how long each step waited for a last rank that is known, in ns."""
        return self.sums((STRAGGLER_WAIT,))

    @property
    def own_lengths(self) -> Float:
        """Return how long each step would have taken without waits for other ranks, in ns."""
        return self.lengths - self.waits

    def mean(self, *prefixes: str) -> float:
        """Return the mean of some leaves, in ns of a step."""
        return float(self.sums(prefixes).mean())

    def sums(self, prefixes: tuple[str, ...]) -> Float:
        """Return what each step has of some leaves, in ns."""
        sums = (
            sum(ns for leaf, ns in row.leaves.items() if leaf.startswith(prefixes))
            for row in self.rows
        )
        return np.array(list(sums), np.float64)
