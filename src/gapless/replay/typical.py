"""Typical values: what was seen of some is said of all that are alike (medians of classes)."""

from typing import Final

import numpy as np
import numpy.typing as npt

from gapless.model.trace import Int64

Bool = npt.NDArray[np.bool_]
LEAST: Final = 3  # values that make a class


def medians(key: Int64, value: Int64) -> tuple[Int64, Int64, Int64]:
    """Give the distinct keys, the lower median of the values of each, and how many those are."""
    order = np.lexsort((value, key))
    keys, head, count = np.unique(key[order], return_index=True, return_counts=True)
    return keys, value[order][head + (count - 1) // 2], count


def imputed(value: Int64, seen: Bool, *keys: Int64) -> Int64:
    """Give each row the median of what was seen in its class, of its finest class that says enough.

    ``keys``: classes, from the finest to the coarsest; after the last one all rows are one class.
    Where nothing at all was seen it is 0.
    """
    found = np.zeros(len(value), np.int64)
    todo = np.ones(len(value), bool)
    rows = np.flatnonzero(seen)
    if not len(rows):
        return found
    for key, least in [*((key, LEAST) for key in keys), (np.zeros(len(value), np.int64), 1)]:
        classes, middle, count = medians(key[rows], value[rows])
        at = np.minimum(np.searchsorted(classes, key), len(classes) - 1)
        known = todo & (classes[at] == key) & (count[at] >= least)
        found[known] = middle[at][known]
        todo &= ~known
    return found


def paired(first: Int64, second: Int64) -> Int64:
    """Make one key of two (columns of integers from −1 on)."""
    return (first + 1) * (int(second.max(initial=0)) + 2) + second + 1
