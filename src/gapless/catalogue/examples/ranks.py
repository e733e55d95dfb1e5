"""The evidence of a run of several ranks, stated in a few lines, for the figures of the rules.

::

    evidence_of_ranks(
        cpu(ddp(), world(ranks=2)),
        {"busy.math": 8, "comm.straggler_wait": 7},  # ms of a step of rank 0, by leaf
        {"busy.math": 15},                           # of rank 1
    )
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from gapless.catalogue.examples.evidence import evidence_of, with_recorded
from gapless.catalogue.examples.parts import COUNT, MS, SECOND, STEPS, example_life
from gapless.model.account import RowAccount
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts
from gapless.model.host_code import HotLine
from gapless.model.ledger import Row
from gapless.model.run import ProcessTime
from gapless.model.work import RankWork

Leaves = Mapping[str, float]
_MARK_NAMES: Final = {  # leaf → its name in light marks
    "idle.io_main.checkpoint": "checkpoint",
    "idle.io_main.logging": "logging",
    "idle.io_main.eval": "evaluation",
    "idle.io_main.profiling": "profiling",
    "idle.gc": "collector",
}


def evidence_of_ranks(
    facts: Facts | None, *ranks: Leaves | Sequence[Leaves], parts: Sequence[object] = ()
) -> Evidence:
    """Return the evidence of ranks whose steps have these leaves, in ms of a step.

    Several steps of a rank, given one by one, take turns. ``parts``: as for ``evidence_of``.
    """
    steps_by_rank = [
        (rank_steps,) if isinstance(rank_steps, Mapping) else tuple(rank_steps)
        for rank_steps in ranks
    ]
    rows = tuple(
        row for rank, steps in enumerate(steps_by_rank) for row in _build_rows(rank, steps)
    )
    mean_ms: dict[str, float] = {}
    for row in rows:
        for leaf, ns in row.leaves.items():
            mean_ms[leaf] = mean_ms.get(leaf, 0.0) + ns / len(rows) / MS
    lives = (
        []
        if facts is None
        else [_build_life(rank, steps) for rank, steps in enumerate(steps_by_rank)]
    )
    evidence = evidence_of(facts, mean_ms, *lives, *parts)
    total_ns = sum(row.row.end - row.row.start for row in rows)
    leaves = {leaf: round(ms * MS * len(rows)) for leaf, ms in mean_ms.items()}
    account = replace(
        evidence.study.account, wall_ns=total_ns, steps=len(rows), leaves=leaves, rows=rows
    )
    return replace(evidence, study=replace(evidence.study, account=account))


def with_rank_lines(evidence: Evidence, *lines: tuple[HotLine, ...]) -> Evidence:
    """Return the evidence with the lines where each rank's training thread was sampled."""
    return with_recorded(evidence, rank_lines=dict(enumerate(lines)))


def with_rank_work(evidence: Evidence, *flops: float, is_steady: bool = True) -> Evidence:
    """Return the evidence with what the operators of each rank have to compute in a step."""
    rank_work = tuple(RankWork(rank, amount, is_steady) for rank, amount in enumerate(flops))
    return replace(evidence, study=replace(evidence.study, rank_work=rank_work))


def hot_line(number: int, share: float) -> HotLine:
    """Return a line of train.py with its share of the samples."""
    return HotLine("training", "train.py", number, "train", round(100 * share), share)


def _build_rows(rank: int, steps: Sequence[Leaves]) -> list[RowAccount]:
    rows: list[RowAccount] = []
    start_ns = 0
    for number in range(STEPS):
        leaves = {name: round(ms * MS) for name, ms in steps[number % len(steps)].items() if ms}
        step_ns = sum(leaves.values())
        row = Row(rank, None, number, start_ns, start_ns + step_ns, left_out=False)
        rows.append(RowAccount(row, leaves, {}))
        start_ns += step_ns
    return rows


def _build_life(rank: int, steps: Sequence[Leaves]) -> ProcessTime:
    """Return the lifetime of a rank that consists of these steps, as light marks show it."""
    ns_by_mark: dict[str, int] = {}
    for leaves in steps:
        for leaf, ms in leaves.items():
            is_wait = leaf.startswith("idle.data")
            name = leaf.removeprefix("idle.") if is_wait else _MARK_NAMES.get(leaf, "step")
            ns_by_mark[name] = ns_by_mark.get(name, 0) + round(ms * MS * COUNT / len(steps))
    total_ns = sum(ns_by_mark.values())
    life = example_life({"step": total_ns / SECOND})
    return replace(life, rank=rank, pid=rank + 1, leaves=ns_by_mark, stepping=ns_by_mark)
