"""The evidence of one rank of several: its steps alone, without its waits for the others."""

from msgspec.structs import replace

from gapless.catalogue.queries.ranks.rank_steps import RANK_WAITS, Rank
from gapless.model.account import Account
from gapless.model.evidence import Evidence
from gapless.model.leaf import GROUPS, group_of
from gapless.model.run import RecordedRun, StepAccount
from gapless.model.study import Study
from gapless.model.tables import Operator
from gapless.recorded.steps.account import StepTotals, step_account


def isolate_rank(evidence: Evidence, rank: Rank) -> Evidence:
    """Return the evidence of one rank, without its waits for others."""
    study = evidence.study
    total_ns = sum(row.row.end - row.row.start for row in study.account.rows)
    share = float(rank.lengths.sum()) / total_ns if total_ns else 0.0
    operators = tuple(_scale_operator(operator, share) for operator in study.tables.operators)
    rank_study = replace(
        study, account=_sum_rank(rank), tables=replace(study.tables, operators=operators)
    )
    recorded = study.recorded
    if recorded is not None and recorded.account is not None:
        rank_account = _join_run_rows(recorded, rank_study, rank.rank) or recorded.account
        rank_account = replace(rank_account, account=_without_waits(rank_account.account))
        rank_study = replace(rank_study, recorded=replace(recorded, account=rank_account))
    return replace(evidence, study=replace(rank_study, account=_without_waits(rank_study.account)))


def _sum_rank(rank: Rank) -> Account:
    leaves: dict[str, int] = {}
    groups: dict[str, int] = dict.fromkeys(GROUPS, 0)
    parts: dict[str, dict[str, int]] = {}
    for row in rank.rows:
        for leaf, ns in row.leaves.items():
            leaves[leaf] = leaves.get(leaf, 0) + ns
    for leaf, ns in leaves.items():
        groups[group_of(leaf)] = groups.get(group_of(leaf), 0) + ns
        parts.setdefault(group_of(leaf), {})[leaf] = ns
    return Account(sum(leaves.values()), len(rank.rows), leaves, groups, parts, rank.rows)


def _join_run_rows(recorded: RecordedRun, windows: Study, rank: int) -> StepAccount | None:
    """Join a rank's run rows with its windows."""
    processes = [
        process
        for process in recorded.timeline.processes
        if process.rank == rank and process.mean_ns
    ]
    if not processes:
        return None
    longest = max(processes, key=lambda process: process.steps)
    wall_ns = sum(longest.stepping.values())
    count = round(wall_ns / (longest.mean_ns or 1))
    return (
        step_account(StepTotals(count, wall_ns, longest.stepping, longest.stepping), windows)
        if count
        else None
    )


def _without_waits(account: Account) -> Account:
    leaves = {leaf: ns for leaf, ns in account.leaves.items() if not leaf.startswith(RANK_WAITS)}
    return replace(account, leaves=leaves)


def _scale_operator(operator: Operator, share: float) -> Operator:
    """Return a rank's part of calls that were counted over all ranks: all call equally often."""
    return replace(
        operator,
        host_self_ns=round(operator.host_self_ns * share),
        host_total_ns=round(operator.host_total_ns * share),
    )
