"""Ranks as their light marks show them: what windows of few steps saw of rare or uneven things.

A window holds a handful of steps; waits for data, collections, checkpoints, logging and evaluation
were marked in all of them. Where a rank has more or less of these outside its windows than within,
its steps are given what the marks have, and all ranks their waits for the one that is last then.
A rank without windows gets the steps of the others' middle, with its own marks.

Without a device only: what a host waits for may be hidden behind the work of its device.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from gapless.catalogue.queries.ranks.rank_steps import RANK_WAITS, STRAGGLER_WAIT, Float, Rank
from gapless.model.account import RowAccount
from gapless.model.evidence import Evidence
from gapless.model.run import ProcessTime

MARKED_LEAVES: Final[Mapping[str, tuple[str, ...]]] = {  # leaves of the account → run leaves
    "idle.data": ("data.", "epoch-turn"),
    "idle.gc": ("collector",),
    "idle.io_main.checkpoint": ("checkpoint",),
    "idle.io_main.logging": ("logging",),
    "idle.io_main.eval": ("evaluation",),
}
_NEW_LEAVES: Final[Mapping[str, str]] = {"idle.data": "idle.data.main"}
_MIN_SHIFT: Final = 0.02  # of a step: smaller differences leave the windows as they are
_MIN_MARKED_STEPS: Final = 10  # un-profiled steps that marks must tell of


def play_marks(ranks: tuple[Rank, ...], evidence: Evidence) -> tuple[Rank, ...]:
    """Return ranks whose steps hold on average what their marks show, those without windows too.

    As they are where there are no marks of all of them, or windows have the same.
    """
    processes = marked_processes(evidence)
    is_paired = len({len(rank.rows) for rank in ranks}) == 1
    if evidence.has_device or not is_paired or any(rank.rank not in processes for rank in ranks):
        return ranks
    all_ranks = (*ranks, *_add_windowless(ranks, processes))
    shifted_rows = [_shift_rows(rank, processes[rank.rank]) for rank in all_ranks]
    shifts_ns = [
        abs(float(_sum_own(shifted).mean() - rank.own_lengths.mean()))
        for shifted, rank in zip(shifted_rows, all_ranks, strict=True)
    ]
    step_ns = float(np.mean([rank.lengths.mean() for rank in ranks]))
    if len(all_ranks) == len(ranks) and max(shifts_ns) < _MIN_SHIFT * step_ns:
        return ranks
    return _wait_anew(all_ranks, shifted_rows)


def marked_processes(evidence: Evidence) -> dict[int, ProcessTime]:
    """Return the processes that stepped long enough for their marks to be typical, by rank."""
    return {
        process.rank: process
        for process in evidence.recorded.timeline.processes
        if process.rank is not None
        and process.mean_ns
        and sum(process.stepping.values()) >= _MIN_MARKED_STEPS * process.mean_ns
    }


def _add_windowless(
    ranks: Sequence[Rank], processes: Mapping[int, ProcessTime]
) -> tuple[Rank, ...]:
    """Return ranks without windows, with the steps of the middle one of the others."""
    known_ranks = {rank.rank for rank in ranks}
    by_work = sorted(ranks, key=lambda rank: float(unmarked_lengths(rank).mean()))
    middle_rows = by_work[(len(by_work) - 1) // 2].rows
    return tuple(
        Rank(number, tuple(replace(row, row=replace(row.row, rank=number)) for row in middle_rows))
        for number in sorted(processes.keys() - known_ranks)
    )


def unmarked_lengths(rank: Rank) -> Float:
    """Return how long each step took by itself, without what marks show of every step, in ns."""
    return rank.own_lengths - rank.sums(tuple(MARKED_LEAVES))


def marked_mean(rank: Rank) -> float:
    """Return what a step of a rank has of what marks show, in ns."""
    return rank.mean(*MARKED_LEAVES)


def _shift_rows(rank: Rank, process: ProcessTime) -> Rank:
    """Return a rank's steps with what its marks show of an average step."""
    rows = rank.rows
    for leaf in MARKED_LEAVES:
        rows = _scale_leaf(rows, leaf, marked_ns(process, leaf))
    return Rank(rank.rank, rows)


def marked_ns(process: ProcessTime, leaf: str) -> float:
    """Return what marks show of a leaf in a process's average step, in ns."""
    n_steps = sum(process.stepping.values()) / (process.mean_ns or 1)
    run_leaves = MARKED_LEAVES[leaf]
    return sum(ns for name, ns in process.stepping.items() if name.startswith(run_leaves)) / n_steps


def _scale_leaf(
    rows: tuple[RowAccount, ...], prefix: str, mean_ns: float
) -> tuple[RowAccount, ...]:
    """Return rows that hold so much of a leaf on average, spread as it was, or evenly."""
    seen_ns = sum(
        ns for row in rows for leaf, ns in row.leaves.items() if leaf.startswith(prefix)
    ) / len(rows)
    if seen_ns <= 0:
        added_ns, leaf_name = round(mean_ns), _NEW_LEAVES.get(prefix, prefix)
        return tuple(
            replace(row, leaves={**row.leaves, leaf_name: added_ns}) if added_ns else row
            for row in rows
        )
    factor = mean_ns / seen_ns
    return tuple(
        replace(
            row,
            leaves={
                leaf: round(ns * factor) if leaf.startswith(prefix) else ns
                for leaf, ns in row.leaves.items()
            },
        )
        for row in rows
    )


def _wait_anew(ranks: Sequence[Rank], shifted_ranks: Sequence[Rank]) -> tuple[Rank, ...]:
    """Return the shifted ranks, each step with its wait for whichever rank is last in it now.

    What ranks wait for one another in turn within a step stays.
    """
    own_ns = np.array([_sum_own(rank) for rank in shifted_ranks])
    before_own_ns = np.max([rank.own_lengths for rank in ranks], axis=0)
    turns_ns = np.maximum(0.0, np.max([rank.lengths for rank in ranks], axis=0) - before_own_ns)
    joint_ns = own_ns.max(axis=0) + turns_ns
    return tuple(
        Rank(
            rank.rank,
            tuple(
                _set_wait(row, round(wait_ns))
                for row, wait_ns in zip(rank.rows, (joint_ns - rank_own_ns).tolist(), strict=True)
            ),
            played=True,
        )
        for rank, rank_own_ns in zip(shifted_ranks, own_ns, strict=True)
    )


def _sum_own(rank: Rank) -> Float:
    return rank.sums(("",)) - rank.sums(RANK_WAITS)


def _set_wait(row: RowAccount, wait_ns: int) -> RowAccount:
    """Return a step that waits so long for the last rank, and is as long as its leaves sum to."""
    leaves = {leaf: ns for leaf, ns in row.leaves.items() if not leaf.startswith(RANK_WAITS)}
    if wait_ns:
        leaves[STRAGGLER_WAIT] = wait_ns
    return replace(
        row, leaves=leaves, row=replace(row.row, end=row.row.start + sum(leaves.values()))
    )
