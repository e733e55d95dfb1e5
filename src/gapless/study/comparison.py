"""Two studies, subtracted: accounts a step, operators, kernels."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from gapless.model.comparison import ChargeDelta, ComparedStudy, Comparison, OperationDelta
from gapless.model.leaf import GROUPS, LEAVES
from gapless.model.rounding import apportion
from gapless.model.study import Study
from gapless.model.tables import Geometry, Kernel, Operator

_Key = tuple[str, str | None]
_Sums = dict[_Key, tuple[int, int]]  # calls, ns


def compare(a: Study, b: Study) -> Comparison:
    """Return the excess of B over A, per step (or, if one has no steps, per capture)."""
    per_step = a.account.steps is not None and b.account.steps is not None
    rows = [len(study.account.rows) if per_step else 1 for study in (a, b)]
    side_a, side_b = _side(a, rows[0]), _side(b, rows[1])
    return Comparison(
        a=side_a,
        b=side_b,
        per_step=per_step,
        groups=_diff_parts(GROUPS, (a.account.groups, side_a), (b.account.groups, side_b)),
        leaves=_diff_parts(LEAVES, (a.account.leaves, side_a), (b.account.leaves, side_b)),
        operators=_match_rows(
            (_sum_operators(a.tables.operators), rows[0]),
            (_sum_operators(b.tables.operators), rows[1]),
        ),
        kernels=_match_rows(
            (_sum_kernels(a.tables.kernels), rows[0]), (_sum_kernels(b.tables.kernels), rows[1])
        ),
        notes=tuple(_describe_unlike(a, b)),
    )


def _describe_unlike(a: Study, b: Study) -> Iterator[str]:
    """Note where the two sides are accounts of different things."""
    devices = [any(row.row.device is not None for row in study.account.rows) for study in (a, b)]
    if devices[0] != devices[1]:
        no_device, with_device = ("B", "A") if devices[0] else ("A", "B")
        yield (
            f"{no_device} has no device: its time is that of a thread, "
            f"that of {with_device} is a device's"
        )
    stepless = [study.account.steps is None for study in (a, b)]
    if stepless[0] != stepless[1]:
        yield f"{'A' if stepless[0] else 'B'} has no steps: both are compared as whole captures"


def _side(study: Study, rows: int) -> ComparedStudy:
    wall = study.account.wall_ns
    median = study.steps.median_ns if study.steps else None
    return ComparedStudy(study.run, study.health, rows, wall, round(wall / max(rows, 1)), median)


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
