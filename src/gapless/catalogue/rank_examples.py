"""What a rule sees of a run of several ranks, stated in a few words: for the figures of the rules.

::

    together(
        cpu(ddp(), world(ranks=2)),
        {"busy.math": 8, "comm.straggler_wait": 7},  # ms of a step of rank 0, by leaf
        {"busy.math": 15},                           # of rank 1
    )
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from gapless.catalogue.seen_examples import changed, seen
from gapless.catalogue.seen_parts import COUNT, MS, SECOND, STEPS, lived
from gapless.model.account import RowAccount
from gapless.model.facts import Facts
from gapless.model.host_code import HotLine
from gapless.model.ledger import Row
from gapless.model.run import ProcessTime
from gapless.model.seen import Seen

Leaves = Mapping[str, float]
_MARKED: Final = {  # leaf → what light marks call it
    "idle.io_main.checkpoint": "checkpoint",
    "idle.io_main.logging": "logging",
    "idle.io_main.eval": "evaluation",
    "idle.io_main.profiling": "profiling",
    "idle.gc": "collector",
}


def together(
    facts: Facts | None, *ranks: Leaves | Sequence[Leaves], parts: Sequence[object] = ()
) -> Seen:
    """Give what a rule sees of ranks whose steps hold these leaves, in ms of a step.

    Of several steps of a rank, stated one by one, each comes in turn. ``parts``: as for ``seen``.
    """
    every = [(one,) if isinstance(one, Mapping) else tuple(one) for one in ranks]
    rows = tuple(row for rank, steps in enumerate(every) for row in _rows(rank, steps))
    mean: dict[str, float] = {}
    for one in rows:
        for leaf, ns in one.leaves.items():
            mean[leaf] = mean.get(leaf, 0.0) + ns / len(rows) / MS
    lives = [] if facts is None else [_life(rank, steps) for rank, steps in enumerate(every)]
    made = seen(facts, mean, *lives, *parts)
    whole = sum(one.row.end - one.row.start for one in rows)
    leaves = {leaf: round(ms * MS * len(rows)) for leaf, ms in mean.items()}
    account = replace(made.study.account, wall_ns=whole, steps=len(rows), leaves=leaves, rows=rows)
    return replace(made, study=replace(made.study, account=account))


def standing(one: Seen, *lines: tuple[HotLine, ...]) -> Seen:
    """Give the same with the lines in which each rank's training thread was seen to stand."""
    return changed(one, rank_lines=dict(enumerate(lines)))


def line(number: int, share: float) -> HotLine:
    """Give a line of train.py with its share of the samples."""
    return HotLine("training", "train.py", number, "train", round(100 * share), share)


def _rows(rank: int, steps: Sequence[Leaves]) -> list[RowAccount]:
    found: list[RowAccount] = []
    at = 0
    for number in range(STEPS):
        leaves = {name: round(ms * MS) for name, ms in steps[number % len(steps)].items() if ms}
        length = sum(leaves.values())
        row = Row(rank, None, number, at, at + length, left_out=False)
        found.append(RowAccount(row, leaves, {}))
        at += length
    return found


def _life(rank: int, steps: Sequence[Leaves]) -> ProcessTime:
    """Give a rank's life of these steps alone, with what light marks tell of them."""
    spent: dict[str, int] = {}
    for one in steps:
        for leaf, ms in one.items():
            waits = leaf.startswith("idle.data")
            name = leaf.removeprefix("idle.") if waits else _MARKED.get(leaf, "step")
            spent[name] = spent.get(name, 0) + round(ms * MS * COUNT / len(steps))
    whole = sum(spent.values())
    life = lived({"step": whole / SECOND})
    return replace(life, rank=rank, pid=rank + 1, leaves=spent, stepping=spent)
