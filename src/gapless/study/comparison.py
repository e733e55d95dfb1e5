"""Two studies, subtracted: accounts a step, operators, kernels; of runs, facts and causes, too."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gapless.model.account import Account
from gapless.model.comparison import (
    ChargeDelta,
    ComparedStudy,
    Comparison,
    FactDelta,
    OperationDelta,
)
from gapless.model.estimate import Estimate
from gapless.model.facts import Facts
from gapless.model.leaf import GROUPS, LEAVES
from gapless.model.rounding import apportion
from gapless.model.study import Study
from gapless.model.tables import Geometry, Kernel, Operator
from gapless.study.explained import (
    explain_groups,
    find_cause_deltas,
    find_fact_deltas,
    find_load_delta,
    is_other_work,
)

_Key = tuple[str, str | None]
_Sums = dict[_Key, tuple[int, int]]  # calls, ns


def compare(
    a: Study, b: Study, facts: tuple[Facts | None, Facts | None] = (None, None)
) -> Comparison:
    """Return the excess of B over A, per step (or, if one has no steps, per capture).

    Of two recorded runs their un-profiled steps are compared, and with ``facts`` of both, what
    changed between them.
    """
    accounts = _account(a), _account(b)
    per_step = all(account.steps is not None for account in accounts)
    rows = [_count_rows(account) if per_step else 1 for account in accounts]
    table_rows = [_count_rows(study.account) if per_step else 1 for study in (a, b)]
    side_a, side_b = _side(a, rows[0]), _side(b, rows[1])
    groups = _diff_parts(GROUPS, (accounts[0].groups, side_a), (accounts[1].groups, side_b))
    loads = [study.recorded.contention if study.recorded else None for study in (a, b)]
    fact_deltas = (*find_fact_deltas(*facts), *find_load_delta(*loads))
    return Comparison(
        a=side_a,
        b=side_b,
        per_step=per_step,
        groups=groups,
        leaves=_diff_parts(LEAVES, (accounts[0].leaves, side_a), (accounts[1].leaves, side_b)),
        operators=_match_rows(
            (_sum_operators(a.tables.operators), table_rows[0]),
            (_sum_operators(b.tables.operators), table_rows[1]),
        ),
        kernels=_match_rows(
            (_sum_kernels(a.tables.kernels), table_rows[0]),
            (_sum_kernels(b.tables.kernels), table_rows[1]),
        ),
        notes=tuple(_describe_unlike(a, b, fact_deltas)),
        speedup=_speedup(a, b),
        facts=fact_deltas,
        causes=find_cause_deltas(a, b) if a.recorded and b.recorded else (),
        explained=explain_groups(groups, fact_deltas) if all(facts) else {},
    )


def _account(study: Study) -> Account:
    """Return the account that is compared: of a recorded run that of its un-profiled steps."""
    recorded = study.recorded.account if study.recorded else None
    return study.account if recorded is None else recorded.account


def _count_rows(account: Account) -> int:
    return max(1, len(account.rows) or account.steps or 1)


def _speedup(a: Study, b: Study) -> Estimate | None:
    """Return how many times as fast B's steps are; ``None`` unless both are runs with steps.

    It is the ratio of the means; its relative width joins those of the two medians.
    """
    steps = [study.recorded.steps if study.recorded else None for study in (a, b)]
    if steps[0] is None or steps[1] is None:
        return None
    ratio = steps[0].mean_ns / max(1, steps[1].mean_ns)
    noises = steps[0].noise, steps[1].noise
    if noises[0] is None or noises[1] is None:
        return None
    width = math.hypot(noises[0], noises[1])
    return Estimate(ratio / (1 + width), ratio, ratio * (1 + width))


def _describe_unlike(a: Study, b: Study, facts: Sequence[FactDelta]) -> Iterator[str]:
    """Note where the two sides are accounts of different things."""
    if a.recorded and b.recorded and a.recorded.life.id == b.recorded.life.id:
        yield "A and B are the same run"
    if (a.recorded is None) != (b.recorded is None):
        yield "one is a recorded run, whose steps have no profiler; the other is a trace"
    elsewhere = [fact for fact in facts if fact.name in {"device", "processors"}]
    if elsewhere:
        yield "they ran on different machines: " + ", ".join(
            f"{fact.name} {fact.a or 'none'} → {fact.b or 'none'}" for fact in elsewhere
        )
    if is_other_work(facts):
        rates = [
            study.recorded.steps.samples_per_s if study.recorded and study.recorded.steps else None
            for study in (a, b)
        ]
        rate_words = "" if None in rates else f": {rates[0]:,.0f} → {rates[1]:,.0f} samples/s"
        yield f"a step of A and one of B are not the same work{rate_words}"
    devices = [any(row.row.device is not None for row in study.account.rows) for study in (a, b)]
    if devices[0] != devices[1]:
        no_device, with_device = ("B", "A") if devices[0] else ("A", "B")
        yield (
            f"{no_device} has no device: its time is that of a thread, "
            f"that of {with_device} is a device's"
        )
    stepless = [_account(study).steps is None for study in (a, b)]
    if stepless[0] != stepless[1]:
        yield f"{'A' if stepless[0] else 'B'} has no steps: both are compared as whole captures"


def _side(study: Study, rows: int) -> ComparedStudy:
    wall = _account(study).wall_ns
    recorded_steps = study.recorded.steps if study.recorded else None
    steps = recorded_steps or study.steps
    median = steps.median_ns if steps else None
    return ComparedStudy(
        run=study.run,
        health=study.health,
        rows=rows,
        wall_ns=wall,
        step_ns=round(wall / max(rows, 1)),
        median_ns=median,
        is_run=study.recorded is not None,
    )


def _diff_parts(
    names: Iterable[str],
    a: tuple[Mapping[str, int], ComparedStudy],
    b: tuple[Mapping[str, int], ComparedStudy],
) -> tuple[ChargeDelta, ...]:
    """Return the parts of either, whole nanoseconds that still sum to the step."""
    present_names = [name for name in names if a[0].get(name) or b[0].get(name)]
    sides = [
        apportion([parts.get(name, 0) for name in present_names], side.step_ns)
        for parts, side in (a, b)
    ]
    changes = [
        ChargeDelta(name, a_ns, b_ns)
        for name, a_ns, b_ns in zip(present_names, *sides, strict=True)
    ]
    return tuple(sorted(changes, key=lambda change: -abs(change.delta_ns)))


def _sum_operators(rows: Iterable[Operator]) -> _Sums:
    return _sum_by_key(((row.name, row.shapes), row.calls, row.host_self_ns) for row in rows)


def _sum_kernels(rows: Iterable[Kernel]) -> _Sums:
    return _sum_by_key(
        ((row.name, _describe_launch(row.geometry)), row.calls, row.device_ns) for row in rows
    )


def _describe_launch(geometry: Geometry | None) -> str | None:
    if geometry is None or geometry.grid is None or geometry.block is None:
        return None
    return "×".join(map(str, geometry.grid)) + " of " + "×".join(map(str, geometry.block))


def _sum_by_key(rows: Iterable[tuple[_Key, int, int]]) -> _Sums:
    calls, ns = Counter[_Key](), Counter[_Key]()
    for key, count, time_ns in rows:
        calls[key] += count
        ns[key] += time_ns
    return {key: (calls[key], ns[key]) for key in calls}


def _match_rows(a: tuple[_Sums, int], b: tuple[_Sums, int]) -> tuple[OperationDelta, ...]:
    matches: list[OperationDelta] = []
    for key in {**a[0], **b[0]}:
        (a_calls, a_ns), (b_calls, b_ns) = (_per_step(key, *side) for side in (a, b))
        matches.append(OperationDelta(*key, a_calls, b_calls, a_ns, b_ns))
    return tuple(sorted(matches, key=lambda row: (-abs(row.delta_ns), row.name, row.detail or "")))


def _per_step(key: _Key, sums: _Sums, rows: int) -> tuple[float, float] | tuple[None, None]:
    if key not in sums:
        return None, None
    calls, ns = sums[key]
    return calls / rows, ns / rows
