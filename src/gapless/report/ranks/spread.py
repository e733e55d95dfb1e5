"""Many ranks, or hosts, in a few lines: quantiles, those that stand out, and a map of all."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from gapless.model.account import RowAccount
from gapless.model.leaf import PRINTED
from gapless.report.text.console import UNICODE, spark
from gapless.report.text.numbers import unit_for
from gapless.report.text.text import pad

MAX_LISTED: Final = 8  # ranks or hosts that are listed one by one
_MAX_OUTLIERS: Final = 5
_FENCE: Final = 1.5  # Tukey's: quartile ranges above the third quartile
_MIN_EXCESS: Final = 0.05  # of the median step: less does not stand out
_WAITING_GROUP: Final = "communication"
_MAP_CELLS: Final = 48  # members in a line of the map, which fits 80 cells


class StepMakeup(Struct, frozen=True):
    """A rank or a host: its mean step, and by name what it does of it by itself, in ns.

    Waiting for other ranks is no part: it is what all but the late one do.
    """

    name: str
    length_ns: float
    parts: Mapping[str, float]


def mean_steps(rows: Sequence[RowAccount]) -> dict[int, dict[str, float]]:
    """Return the groups of a mean step by rank, in ns."""
    sums: dict[int, dict[str, float]] = {}
    counts: dict[int, int] = {}
    for account in rows:
        rank = account.row.rank
        if rank is None:
            continue
        groups = sums.setdefault(rank, {})
        counts[rank] = counts.get(rank, 0) + 1
        for group, ns in account.groups.items():
            groups[group] = groups.get(group, 0.0) + ns
    return {
        rank: {group: ns / counts[rank] for group, ns in groups.items()}
        for rank, groups in sorted(sums.items())
    }


def own_parts(groups: Mapping[str, float]) -> dict[str, float]:
    """Return what a rank does by itself of the groups of a step, by their printed names."""
    return {PRINTED[group]: ns for group, ns in groups.items() if group != _WAITING_GROUP}


def spread_lines(members: Sequence[StepMakeup], noun: str) -> Iterator[str]:
    """Describe many members without listing them; ``noun`` is what they are, in the plural."""
    lengths_ns = [member.length_ns for member in members]
    longest = max(members, key=lambda member: member.length_ns)
    unit = unit_for(longest.length_ns)
    low, median, high = (unit.fmt(ns) for ns in np.quantile(lengths_ns, (0.1, 0.5, 0.9)))
    yield (
        f"{len(members):,} {noun}: a step takes {median} {unit.name} (median; p10 {low}, p90 "
        f"{high}), longest {unit.fmt(longest.length_ns)} on {longest.name}"
    )
    yield from _outlier_lines(members)
    yield from _map_lines(members)


def _outlier_lines(members: Sequence[StepMakeup]) -> Iterator[str]:
    """Name who does something much longer than the others, the longest first."""
    min_excess_ns = _MIN_EXCESS * float(np.median([member.length_ns for member in members]))
    excesses: dict[str, tuple[float, str, float]] = {}  # by member: its largest, of which part
    for part in dict.fromkeys(part for member in members for part in member.parts):
        values_ns = np.array([member.parts.get(part, 0.0) for member in members])
        first, median, third = np.quantile(values_ns, (0.25, 0.5, 0.75)).tolist()
        fence_ns = max(third + _FENCE * (third - first), median + min_excess_ns)
        for index in np.flatnonzero(values_ns > fence_ns).tolist():
            excess = (values_ns[index] - median, part, median)
            excesses[members[index].name] = max(excess, excesses.get(members[index].name, excess))
    names = sorted(excesses, key=lambda name: -excesses[name][0])
    for name in names[:_MAX_OUTLIERS]:
        excess_ns, part, median_ns = excesses[name]
        unit = unit_for(excess_ns + median_ns)
        yield (
            f"{name} stands out: {part} {unit.fmt(excess_ns + median_ns)} {unit.name} a step, "
            f"others {unit.fmt(median_ns)}"
        )
    if len(names) > _MAX_OUTLIERS:
        yield f"{len(names) - _MAX_OUTLIERS:,} more stand out, by less"


def _map_lines(members: Sequence[StepMakeup]) -> Iterator[str]:
    """Draw what each does by itself, a sign each."""
    work_ns = [sum(member.parts.values()) for member in members]
    top_ns = max(work_ns)
    if not top_ns:
        return
    unit = unit_for(top_ns)
    low_sign, top_sign = UNICODE.sparks[0], UNICODE.sparks[-1]
    yield (
        f"what each does itself in a step, waiting for others apart, from 0 ({low_sign}) to "
        f"{unit.fmt(top_ns)} {unit.name} ({top_sign}):"
    )
    starts = range(0, len(members), _MAP_CELLS)
    width = max(len(members[start].name) for start in starts)
    for start in starts:
        signs = spark(work_ns[start : start + _MAP_CELLS], top_ns, _MAP_CELLS, UNICODE)
        yield f"{pad(members[start].name, width)} … {signs}"
