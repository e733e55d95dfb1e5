"""What a report says of the ranks of a run, and which of them the others wait for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gapless.model.run import ProcessTime, Recorded
from gapless.model.study import Study
from gapless.report.names import process_name
from gapless.report.numbers import percent, span, unit_for
from gapless.report.run_words import PHASES

_FEW: Final = 8  # ranks that are listed one by one
_TOGETHER: Final = 1.1  # times the shortest mean step: ranks within it step together
_UNEVEN: Final = 0.1  # of the time: a larger difference between ranks is said
_NOTABLE: Final = 0.01  # of a step: shorter waits for a rank are not said
_NAMED: Final = 3  # ranks that others wait for


def rank_lines(study: Study, recorded: Recorded) -> Iterator[str]:
    """Give a few ranks one by one, or the slowest and the fastest of many; then who is late."""
    ones = [one for one in recorded.timeline.processes if one.mean_ns is not None]
    if len(ones) < 2:  # noqa: PLR2004 - one is the account itself
        return
    unit = unit_for(max(one.mean_ns or 0 for one in ones))
    slowest = sorted(ones, key=lambda one: -(one.mean_ns or 0))
    shown = ones if len(ones) <= _FEW else [*slowest[:3], slowest[-1]]
    for one in shown:
        yield (
            f"{process_name(one)}: {one.steps:,} steps of {unit.of(one.mean_ns or 0)} "
            f"{unit.name} · {_makeup(one.stepping)}"
        )
    if len(ones) > len(shown):
        kind = "processes" if any(one.rank is None for one in ones) else "ranks"
        yield f"{len(ones) - len(shown)} more {kind} between the third slowest and the fastest"
    late = list(_late(study, ones))
    yield from late or _uneven(ones)


def _late(study: Study, ones: Sequence[ProcessTime]) -> Iterator[str]:
    """Say for whom the others waited in collectives, and what that rank does more than they."""
    steps = study.account.rows
    for late in study.stragglers[:_NAMED]:
        others = sum(one.row.rank != late.rank for one in steps)
        each = late.ns / max(1, others)
        length = sum(one.row.end - one.row.start for one in steps) / max(1, len(steps))
        if each >= _NOTABLE * length:
            yield (
                f"the others waited for rank {late.rank} in collectives: {span(each)} a step (in "
                f"{others:,} steps of windows){_more(ones, late.rank)}"
            )


def _more(ones: Sequence[ProcessTime], rank: int) -> str:
    """Give what a rank spends most more time on than the others, of what the light marks tell."""
    mine = [_each(one) for one in ones if one.rank == rank]
    rest = [_each(one) for one in ones if one.rank != rank]
    if not mine or not rest:
        return ""
    more = {
        leaf: mine[0].get(leaf, 0.0) - sum(one.get(leaf, 0.0) for one in rest) / len(rest)
        for leaf in mine[0]
        if leaf != "step"
    }
    largest = max(more, key=lambda leaf: more[leaf], default="step")
    whole = sum(mine[0].values())
    if more.get(largest, 0.0) < _NOTABLE * whole:
        return "; what delays it lies within its steps"
    return f"; outside the windows it spends {span(more[largest])} more a step {_DOING[largest]}"


def _each(one: ProcessTime) -> dict[str, float]:
    """Give what an un-profiled step of a process holds, in ns."""
    count = sum(one.stepping.values()) / (one.mean_ns or 1) or 1
    found = {leaf: ns / count for leaf, ns in one.stepping.items() if not leaf.startswith("data.")}
    return {**found, "data": _waiting(one.stepping) * sum(one.stepping.values()) / count}


_DOING: Final = {
    "data": "waiting for data",
    "epoch-turn": "on epoch turns",
    "evaluation": "on evaluation",
    "checkpoint": "on checkpoints",
    "logging": "on logging",
    "profiling": "on its own profiler",
    "collector": "in the garbage collector",
    "observer": "in this recorder",
    "unknown": "on what is unknown",
}


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
