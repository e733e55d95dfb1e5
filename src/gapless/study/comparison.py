"""Two studies, subtracted: accounts a step, operators, kernels."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from gapless.model.comparison import Change, Comparison, Matched, Side
from gapless.model.leaf import GROUPS, LEAVES
from gapless.model.rounding import apportion
from gapless.model.study import Study
from gapless.model.tables import Geometry, Kernel, Operator

_Key = tuple[str, str | None]
_Sums = dict[_Key, tuple[int, int]]  # calls, ns


def compare(a: Study, b: Study) -> Comparison:
    """Give what B has more of than A, a step (or, if one has no steps, a capture)."""
    per_step = a.account.steps is not None and b.account.steps is not None
    rows = [len(study.account.rows) if per_step else 1 for study in (a, b)]
    one, other = _side(a, rows[0]), _side(b, rows[1])
    return Comparison(
        a=one,
        b=other,
        per_step=per_step,
        groups=_changes(GROUPS, (a.account.groups, one), (b.account.groups, other)),
        leaves=_changes(LEAVES, (a.account.leaves, one), (b.account.leaves, other)),
        operators=_matched(
            (_operators(a.tables.operators), rows[0]), (_operators(b.tables.operators), rows[1])
        ),
        kernels=_matched(
            (_kernels(a.tables.kernels), rows[0]), (_kernels(b.tables.kernels), rows[1])
        ),
        notes=tuple(_unlike(a, b)),
    )


def _unlike(a: Study, b: Study) -> Iterator[str]:
    """Say where the two sides are accounts of different things."""
    devices = [any(one.row.device is not None for one in study.account.rows) for study in (a, b)]
    if devices[0] != devices[1]:
        without, other = ("B", "A") if devices[0] else ("A", "B")
        yield f"{without} has no device: it is the time of a thread, that of {other} is a device's"
    stepless = [study.account.steps is None for study in (a, b)]
    if stepless[0] != stepless[1]:
        yield f"{'A' if stepless[0] else 'B'} has no steps: both are compared as whole captures"


def _side(study: Study, rows: int) -> Side:
    wall = study.account.wall_ns
    median = study.steps.median_ns if study.steps else None
    return Side(study.run, study.health, rows, wall, round(wall / max(rows, 1)), median)


def _changes(
    names: Iterable[str], a: tuple[Mapping[str, int], Side], b: tuple[Mapping[str, int], Side]
) -> tuple[Change, ...]:
    """Give the parts of either, whole nanoseconds that still sum to the step."""
    kept = [name for name in names if a[0].get(name) or b[0].get(name)]
    sides = [
        apportion([parts.get(name, 0) for name in kept], side.step_ns) for parts, side in (a, b)
    ]
    found = [Change(name, one, other) for name, one, other in zip(kept, *sides, strict=True)]
    return tuple(sorted(found, key=lambda change: -abs(change.delta_ns)))


def _operators(rows: Iterable[Operator]) -> _Sums:
    return _summed(((row.name, row.shapes), row.calls, row.host_self_ns) for row in rows)


def _kernels(rows: Iterable[Kernel]) -> _Sums:
    return _summed(((row.name, _launch(row.geometry)), row.calls, row.device_ns) for row in rows)


def _launch(geometry: Geometry | None) -> str | None:
    if geometry is None or geometry.grid is None or geometry.block is None:
        return None
    return "×".join(map(str, geometry.grid)) + " of " + "×".join(map(str, geometry.block))


def _summed(rows: Iterable[tuple[_Key, int, int]]) -> _Sums:
    calls, ns = Counter[_Key](), Counter[_Key]()
    for key, count, time in rows:
        calls[key] += count
        ns[key] += time
    return {key: (calls[key], ns[key]) for key in calls}


def _matched(a: tuple[_Sums, int], b: tuple[_Sums, int]) -> tuple[Matched, ...]:
    found: list[Matched] = []
    for key in {**a[0], **b[0]}:
        (a_calls, a_ns), (b_calls, b_ns) = (_each(key, *side) for side in (a, b))
        found.append(Matched(*key, a_calls, b_calls, a_ns, b_ns))
    return tuple(sorted(found, key=lambda row: (-abs(row.delta_ns), row.name, row.detail or "")))


def _each(key: _Key, sums: _Sums, rows: int) -> tuple[float, float] | tuple[None, None]:
    if key not in sums:
        return None, None
    calls, ns = sums[key]
    return calls / rows, ns / rows
