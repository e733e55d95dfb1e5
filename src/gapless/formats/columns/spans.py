"""Begins and ends of third-party writers → complete events."""

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from gapless.formats.columns.columns import ON_DEVICE

Columns = dict[str, npt.NDArray[Any]]


class PairedEvents(Struct, frozen=True):
    """Complete events made of pairs, and the rows of GPU columns that they need."""

    events: Columns
    gpu_rows: int


def pair_spans(spans: Columns, activities: int, dropped: "Counter[str]") -> PairedEvents:
    """Pair each end with the innermost open begin of its track, in the order of the file.

    ``activities`` is the number of rows that the GPU columns have already. Begins and ends that
    stay alone are counted in ``dropped``.
    """
    begin, end, unpaired = _pairs(spans)
    for reason, number in unpaired.items():
        dropped[reason] += number
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], end[order]
    category = spans["category"][begin]
    device = np.flatnonzero(np.isin(category, ON_DEVICE))
    detail = np.full(len(begin), -1, dtype=np.int32)
    detail[device] = activities + np.arange(len(device))
    events = {
        "start": spans["time"][begin],
        "end": spans["time"][end],
        "name": spans["name"][begin],
        "category": category,
        "track": spans["track"][begin],
        "correlation": np.full(len(begin), -1, dtype=np.int64),
        "detail": detail,
    }
    return PairedEvents(events, len(device))


def _pairs(spans: Columns) -> tuple[npt.NDArray[Any], npt.NDArray[Any], "Counter[str]"]:
    open_rows: dict[int, list[int]] = {}
    begin: list[int] = []
    end: list[int] = []
    unpaired: Counter[str] = Counter()
    rows = zip(spans["begins"].tolist(), spans["track"].tolist(), strict=True)
    for row, (begins, track) in enumerate(rows):
        if begins:
            open_rows.setdefault(track, []).append(row)
        elif open_rows.get(track):
            begin.append(open_rows[track].pop())
            end.append(row)
        else:
            unpaired["end without a begin"] += 1
    unpaired["begin without an end"] += sum(map(len, open_rows.values()))
    return np.array(begin, dtype=np.intp), np.array(end, dtype=np.intp), +unpaired
