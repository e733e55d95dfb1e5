"""Grouping in columns: which rows are alike, and their exact sums."""

from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from gapless.model.trace import Int64

_MAX_KEY_SPREAD: Final = 4  # keys may spread over so many times their number


class Groups(Struct, frozen=True):
    """Rows that are alike in all keys, numbered in ascending order of the keys."""

    group_ids: Int64  # the group of each row
    first_rows: Int64  # a row of each group

    def __len__(self) -> int:
        """Count the groups."""
        return len(self.first_rows)

    def total(self, values: Int64) -> Int64:
        """Sum integers by group, exactly."""
        sums = np.zeros(len(self), np.int64)
        np.add.at(sums, self.group_ids, values)
        return sums

    def count(self) -> Int64:
        """Count the rows of each group."""
        return np.bincount(self.group_ids, minlength=len(self)).astype(np.int64)


def group_rows(*keys: npt.NDArray[np.integer]) -> Groups:
    """Group rows that are alike in all keys (columns of small non-negative integers, or −1)."""
    group_ids, first_rows = _number_values(keys[0])
    for key in keys[1:]:
        key_ids, _ = _number_values(key)
        group_ids, first_rows = _number_values(
            group_ids * (int(key_ids.max(initial=0)) + 1) + key_ids
        )
    return Groups(group_ids, first_rows)


def _number_values(key: npt.NDArray[np.integer]) -> tuple[Int64, Int64]:
    """Return each row's rank of its value among the distinct ones, and a row of each of these."""
    low, high = (int(key.min()), int(key.max())) if len(key) else (0, 0)
    if high - low >= _MAX_KEY_SPREAD * len(key):
        _, first_rows, value_ids = np.unique(key, return_index=True, return_inverse=True)
        return value_ids.astype(np.int64), first_rows.astype(np.int64)
    row_of = np.full(high - low + 1, -1)  # several times as fast as sorting
    row_of[key[::-1] - low] = np.arange(len(key) - 1, -1, -1)  # the first row is written last
    is_present = row_of >= 0
    return (np.cumsum(is_present) - 1)[key - low], row_of[is_present]


def heaviest_labels(groups: Groups, label: Int64, weight: Int64) -> Int64:
    """Return for each group the label (≥ 0) with most weight in it; −1 where none has a label."""
    rows = np.flatnonzero(label >= 0)
    labels = np.full(len(groups), -1, np.int64)
    if not len(rows):
        return labels
    pairs = group_rows(groups.group_ids[rows], label[rows])
    weights = pairs.total(weight[rows])
    order = np.argsort(weights, kind="stable")  # the heaviest is written last
    labels[groups.group_ids[rows][pairs.first_rows[order]]] = label[rows][pairs.first_rows[order]]
    return labels
