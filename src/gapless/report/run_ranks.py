"""What a report says of the ranks of a run, and which of them the others wait for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gapless.model.run import ProcessTime, Recorded
from gapless.report.numbers import percent, unit_for
from gapless.report.run_words import PHASES

_FEW: Final = 8  # ranks that are listed one by one
_TOGETHER: Final = 1.1  # times the shortest mean step: ranks within it step together
_UNEVEN: Final = 0.1  # of the time: a larger difference between ranks is said


def rank_lines(recorded: Recorded) -> Iterator[str]:
    """Give a few ranks one by one, or the slowest and the fastest of many."""
    ones = [one for one in recorded.timeline.processes if one.mean_ns is not None]
    if len(ones) < 2:  # noqa: PLR2004 - one is the account itself
        return
    unit = unit_for(max(one.mean_ns or 0 for one in ones))
    slowest = sorted(ones, key=lambda one: -(one.mean_ns or 0))
    shown = ones if len(ones) <= _FEW else [*slowest[:3], slowest[-1]]
    for one in shown:
        name = f"rank {one.rank}" if one.rank is not None else f"process {one.pid}"
        yield (
            f"{name}: {one.steps:,} steps of {unit.of(one.mean_ns or 0)} {unit.name} · "
            f"{_makeup(one.stepping)}"
        )
    if len(ones) > len(shown):
        yield f"{len(ones) - len(shown)} more ranks between the third slowest and the fastest"
    yield from _uneven(ones)


def _uneven(ones: Sequence[ProcessTime]) -> Iterator[str]:
    """Say which rank waits for data much more than another, though their steps are as long.

    Ranks that step together hide it: where one waits for data, the others wait for that rank.
    """
    means = [one.mean_ns or 0 for one in ones]
    waits = {one.rank: _waiting(one.stepping) for one in ones if one.rank is not None}
    if len(waits) < 2 or max(means) > _TOGETHER * min(means):  # noqa: PLR2004
        return
    most, least = max(waits, key=lambda rank: waits[rank]), min(waits, key=lambda rank: waits[rank])
    if waits[most] - waits[least] > _UNEVEN:
        yield (
            f"their steps are equally long, but rank {most} waits {percent(waits[most])} of the "
            f"time for data and rank {least} {percent(waits[least])}: if they step together, the "
            f"others wait for rank {most}"
        )


def _waiting(leaves: Mapping[str, int]) -> float:
    whole = sum(leaves.values()) or 1
    return sum(ns for leaf, ns in leaves.items() if leaf.startswith("data.")) / whole


def _makeup(leaves: Mapping[str, int]) -> str:
    """Give shares of the time of un-profiled steps."""
    whole = sum(leaves.values()) or 1
    rest = {leaf: ns for leaf, ns in leaves.items() if not leaf.startswith(("data.", "step"))}
    parts = [f"waiting for data {percent(_waiting(leaves))}"]
    parts += [
        f"{PHASES[leaf]} {percent(ns / whole)}"
        for leaf, ns in sorted(rest.items(), key=lambda item: -item[1])[:2]
        if ns / whole >= 0.01  # noqa: PLR2004
    ]
    return " · ".join(parts)
