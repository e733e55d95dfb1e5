"""Typical values: what was seen of some is assumed for all alike (medians of classes)."""

from typing import Final

import numpy as np
import numpy.typing as npt

from gapless.model.trace import Int64

Bool = npt.NDArray[np.bool_]
MIN_CLASS_SIZE: Final = 3  # values needed for a class


def medians(key: Int64, values: Int64) -> tuple[Int64, Int64, Int64]:
    """Return the distinct keys, the lower median of the values of each, and how many those are."""
    order = np.lexsort((values, key))
    keys, head, count = np.unique(key[order], return_index=True, return_counts=True)
    return keys, values[order][head + (count - 1) // 2], count


def impute(values: Int64, is_observed: Bool, *keys: Int64) -> Int64:
    """Return for each row the median of its finest class with enough observations.

    ``keys``: classes, from the finest to the coarsest; after the last one all rows are one class.
    Without any observation it is 0.
    """
    typical = np.zeros(len(values), np.int64)
    is_open = np.ones(len(values), bool)
    rows = np.flatnonzero(is_observed)
    if not len(rows):
        return typical
    for key, min_count in [
        *((key, MIN_CLASS_SIZE) for key in keys),
        (np.zeros(len(values), np.int64), 1),
    ]:
        classes, middles, count = medians(key[rows], values[rows])
        position = np.minimum(np.searchsorted(classes, key), len(classes) - 1)
        is_known = is_open & (classes[position] == key) & (count[position] >= min_count)
        typical[is_known] = middles[position][is_known]
        is_open &= ~is_known
    return typical


def pair_keys(major: Int64, minor: Int64) -> Int64:
    """Make one key of two (columns of integers from −1 on)."""
    return (major + 1) * (int(minor.max(initial=0)) + 2) + minor + 1
