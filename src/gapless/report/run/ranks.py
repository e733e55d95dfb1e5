"""The report on the ranks of a run, and which of them the others wait for."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gapless.model.run import ProcessTime, RecordedRun
from gapless.model.study import Study
from gapless.report.ranks.spread import MAX_LISTED, StepMakeup, mean_steps, own_parts, spread_lines
from gapless.report.run.sentences import PHASES
from gapless.report.text.names import process_name
from gapless.report.text.numbers import duration, percent, span, unit_for
from gapless.report.text.text import clean

_MAX_STEP_RATIO: Final = 1.1  # times the shortest mean step: ranks within it step together
_MIN_WAIT_DIFFERENCE: Final = 0.1  # of the time: a larger difference between ranks is reported
_MIN_STEP_SHARE: Final = 0.01  # of a step: shorter waits for a rank are not reported
_MAX_STRAGGLERS: Final = 3  # ranks that others wait for


def rank_lines(study: Study, recorded: RecordedRun) -> Iterator[str]:
    """Describe a few ranks one by one, many by how they spread; then who is late."""
    processes = _stepping_processes(recorded)
    if len(processes) < 2:  # noqa: PLR2004 - one is the account itself
        return
    if len(processes) > MAX_LISTED:
        named_processes = [(process_name(process), (process,)) for process in processes]
        yield from spread_lines(_members(study, named_processes), _nouns(processes))
    else:
        unit = unit_for(max(process.mean_ns or 0 for process in processes))
        for process in processes:
            yield (
                f"{process_name(process)}: {process.steps:,} steps of "
                f"{unit.fmt(process.mean_ns or 0)} {unit.name} · {_makeup_text(process.stepping)}"
            )
    late_lines = list(_straggler_lines(study, processes))
    yield from late_lines or _uneven_lines(processes)


def host_lines(study: Study, recorded: RecordedRun) -> Iterator[str]:
    """Describe the machines of a job by the mean steps of their ranks."""
    by_host: dict[str, list[ProcessTime]] = {}
    for node in recorded.nodes:
        host = clean(node.host) or f"node {node.number}"
        processes = by_host.setdefault(host, [])
        processes += [item for item in _stepping_processes(recorded) if item.rank in node.ranks]
    members = _members(study, [item for item in by_host.items() if item[1]])
    if len(members) > MAX_LISTED:
        yield from spread_lines(members, "hosts")
        return
    for member in members if len(members) > 1 else ():
        parts = sorted(member.parts.items(), key=lambda part: -part[1])[:3]
        texts = [f"{name} {percent(ns / member.length_ns)}" for name, ns in parts if ns]
        yield " · ".join([f"{member.name}: steps of {duration(member.length_ns)}", *texts])


def _stepping_processes(recorded: RecordedRun) -> list[ProcessTime]:
    return [process for process in recorded.timeline.processes if process.mean_ns is not None]


def _nouns(processes: Sequence[ProcessTime]) -> str:
    return "processes" if any(process.rank is None for process in processes) else "ranks"


def _members(
    study: Study, named_processes: Sequence[tuple[str, Sequence[ProcessTime]]]
) -> list[StepMakeup]:
    """Return ranks, or hosts with several, by their light marks and, where these are, windows."""
    window_steps = mean_steps(study.account.rows)
    members: list[StepMakeup] = []
    for name, processes in named_processes:
        sums = Counter[str]()
        for process in processes:
            step_ns = _mean_step(process)
            step_ns.pop("step", None)  # waiting for others is in it
            sums.update({PHASES[leaf]: ns for leaf, ns in step_ns.items()})
            groups = {} if process.rank is None else window_steps.get(process.rank, {})
            sums.update(own_parts({group: ns for group, ns in groups.items() if group != "data"}))
        length_ns = sum(process.mean_ns or 0 for process in processes) / len(processes)
        parts = {part: ns / len(processes) for part, ns in sums.items()}
        members.append(StepMakeup(name, length_ns, parts))
    return members


def _straggler_lines(study: Study, processes: Sequence[ProcessTime]) -> Iterator[str]:
    """Describe for which rank the others waited in collectives, and what it does in excess."""
    rows = study.account.rows
    for straggler in study.stragglers[:_MAX_STRAGGLERS]:
        waiting_rows = sum(row.row.rank != straggler.rank for row in rows)
        ns = straggler.ns / max(1, waiting_rows)
        mean_ns = sum(row.row.end - row.row.start for row in rows) / max(1, len(rows))
        if ns >= _MIN_STEP_SHARE * mean_ns:
            yield (
                f"the others waited for rank {straggler.rank} in collectives: {span(ns)} a step "
                f"(in {waiting_rows:,} steps of windows){_excess_text(processes, straggler.rank)}"
            )


def _excess_text(processes: Sequence[ProcessTime], rank: int) -> str:
    """Return what a rank spends the largest excess of time on, by the light marks."""
    rank_steps = [_mean_step(process) for process in processes if process.rank == rank]
    other_steps = [_mean_step(process) for process in processes if process.rank != rank]
    if not rank_steps or not other_steps:
        return ""
    excess_ns = {
        leaf: rank_steps[0].get(leaf, 0.0)
        - sum(step.get(leaf, 0.0) for step in other_steps) / len(other_steps)
        for leaf in rank_steps[0]
        if leaf != "step"
    }
    largest = max(excess_ns, key=lambda leaf: excess_ns[leaf], default="step")
    step_ns = sum(rank_steps[0].values())
    if excess_ns.get(largest, 0.0) < _MIN_STEP_SHARE * step_ns:
        return "; what delays it lies within its steps"
    return (
        f"; outside the windows it spends {span(excess_ns[largest])} more a step {_WORDS[largest]}"
    )


def _mean_step(process: ProcessTime) -> dict[str, float]:
    """Return what an un-profiled step of a process holds, in ns."""
    n_steps = sum(process.stepping.values()) / (process.mean_ns or 1) or 1
    leaves_ns = {
        leaf: ns / n_steps for leaf, ns in process.stepping.items() if not leaf.startswith("data.")
    }
    return {
        **leaves_ns,
        "data": _waiting_share(process.stepping) * sum(process.stepping.values()) / n_steps,
    }


_WORDS: Final = {
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


def _uneven_lines(processes: Sequence[ProcessTime]) -> Iterator[str]:
    """Describe which rank waits for data much more than another with equally long steps.

    Ranks that step together hide it: where one waits for data, the others wait for that rank.
    """
    means_ns = [process.mean_ns or 0 for process in processes]
    shares = {
        process.rank: _waiting_share(process.stepping)
        for process in processes
        if process.rank is not None
    }
    if len(shares) < 2 or max(means_ns) > _MAX_STEP_RATIO * min(means_ns):  # noqa: PLR2004
        return
    worst, best = (
        max(shares, key=lambda rank: shares[rank]),
        min(shares, key=lambda rank: shares[rank]),
    )
    if shares[worst] - shares[best] > _MIN_WAIT_DIFFERENCE:
        yield (
            f"their steps are equally long, but rank {worst} waits {percent(shares[worst])} of the "
            f"time for data and rank {best} {percent(shares[best])}: if they step together, the "
            f"others wait for rank {worst}"
        )


def _waiting_share(leaves: Mapping[str, int]) -> float:
    total_ns = sum(leaves.values()) or 1
    return sum(ns for leaf, ns in leaves.items() if leaf.startswith("data.")) / total_ns


def _makeup_text(leaves: Mapping[str, int]) -> str:
    """Return shares of the time of un-profiled steps."""
    total_ns = sum(leaves.values()) or 1
    other_leaves = {
        leaf: ns for leaf, ns in leaves.items() if not leaf.startswith(("data.", "step"))
    }
    parts = [f"waiting for data {percent(_waiting_share(leaves))}"]
    parts += [
        f"{PHASES[leaf]} {percent(ns / total_ns)}"
        for leaf, ns in sorted(other_leaves.items(), key=lambda leaf_and_ns: -leaf_and_ns[1])[:2]
        if ns / total_ns >= 0.01  # noqa: PLR2004
    ]
    return " · ".join(parts)
