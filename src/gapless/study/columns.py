"""Grouping in columns: which rows are alike, and their exact sums."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from gapless.model.trace import Int64

_DENSE: Final = 4  # keys may spread over so many times their number


@dataclass(frozen=True)
class Groups:
    """Rows that are alike in all keys, numbered in ascending order of the keys."""

    of: Int64  # the group of each row
    first: Int64  # a row of each group

    def __len__(self) -> int:
        """Count the groups."""
        return len(self.first)

    def total(self, values: Int64) -> Int64:
        """Sum integers by group, exactly."""
        sums = np.zeros(len(self), np.int64)
        np.add.at(sums, self.of, values)
        return sums

    def count(self) -> Int64:
        """Count the rows of each group."""
        return np.bincount(self.of, minlength=len(self)).astype(np.int64)


def group(*keys: npt.NDArray[np.integer]) -> Groups:
    """Group rows that are alike in all keys (columns of small non-negative integers, or −1)."""
    of, first = _numbered(keys[0])
    for key in keys[1:]:
        more, _ = _numbered(key)
        of, first = _numbered(of * (int(more.max(initial=0)) + 1) + more)
    return Groups(of, first)


def _numbered(key: npt.NDArray[np.integer]) -> tuple[Int64, Int64]:
    """Give each row the rank of its value among the distinct ones, and a row of each of them."""
    low, high = (int(key.min()), int(key.max())) if len(key) else (0, 0)
    if high - low >= _DENSE * len(key):
        _, first, of = np.unique(key, return_index=True, return_inverse=True)
        return of.astype(np.int64), first.astype(np.int64)
    row_of = np.full(high - low + 1, -1)  # several times as fast as sorting
    row_of[key[::-1] - low] = np.arange(len(key) - 1, -1, -1)  # the first row is written last
    present = row_of >= 0
    return (np.cumsum(present) - 1)[key - low], row_of[present]


def heaviest(groups: Groups, label: Int64, weight: Int64) -> Int64:
    """Give for each group the label (≥ 0) that has most weight in it; −1 where none has a label."""
    rows = np.flatnonzero(label >= 0)
    found = np.full(len(groups), -1, np.int64)
    if not len(rows):
        return found
    pairs = group(groups.of[rows], label[rows])
    weights = pairs.total(weight[rows])
    order = np.argsort(weights, kind="stable")  # the heaviest is written last
    found[groups.of[rows][pairs.first[order]]] = label[rows][pairs.first[order]]
    return found
