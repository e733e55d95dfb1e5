"""The sentences of a report that every form of text shares."""

from collections.abc import Iterator, Sequence
from typing import Final

from gapless.model.account import Account, RowAccount
from gapless.model.leaf import PRINTED
from gapless.model.study import Steps, Study, StudyHealth
from gapless.report.account import Sheet
from gapless.report.numbers import Unit, count, duration, percent, unit_for
from gapless.report.text import clean

_NOTABLE: Final = 0.1  # of what a slow step lost: smaller parts of it are not named
_SLOW: Final = 0.02  # above the median: only the slowest step is shown if it is less slow
_FEW: Final = 8  # ranks that are listed one by one


def headline(study: Study, sheet: Sheet) -> str:
    """Say in one line what was looked at and how much of the time the device worked."""
    account = study.account
    length = f"{sheet.unit.text(sheet.digits)} {sheet.unit.name}"
    steps = len({one.row.step for one in account.rows})
    if account.steps is None:
        what = f"a capture of {length}"
    else:
        what = f"{steps} step{'s' if steps != 1 else ''} of {length}"
    devices = {(one.row.rank, one.row.device) for one in account.rows if one.row.device is not None}
    busy = percent(account.busy_ns() / account.wall_ns) if account.wall_ns else "0 %"
    if not devices:
        return f"gapless · {what} on the CPU alone"
    name = clean(study.run.device or "an unnamed device")
    where = name if len(devices) == 1 else f"{len(devices)} × {name}"
    worked = "the GPU worked" if len(devices) == 1 else "the GPUs worked"
    return f"gapless · {what} on {where} · {worked} {busy} of the time"


def footing(study: Study) -> str:
    """Say what the visible sum rests on: clock error, resolution, number of steps."""
    parts = ["sums exactly"]
    if study.health.clock_error_ns:
        parts.append(f"± {duration(study.health.clock_error_ns)} clock error")
    if study.health.resolution_ns > 1:
        parts.append(f"timestamps to {duration(study.health.resolution_ns)}")
    if study.steps is not None:
        total = study.steps.count + study.steps.left_out
        parts.append(f"from {study.steps.count} of {total} steps")
    return "; ".join(parts)


def steps_lines(steps: Steps, account: Account) -> Iterator[str]:
    """Say how long steps take, how much that varies, and what the slowest lost in."""
    unit = unit_for(steps.median_ns)
    yield (
        f"median {unit.of(steps.median_ns)} {unit.name} · p10 {unit.of(steps.p10_ns)} "
        f"· p90 {unit.of(steps.p90_ns)} · found by {clean(steps.rule)}"
    )
    typical = steps.typical
    if typical is None or len(account.rows) < 2:  # noqa: PLR2004 - nothing to compare with
        return
    for at, slow in enumerate(steps.slowest):
        if length(slow) > length(typical) * (1 if at == 0 else 1 + _SLOW):
            yield _slow(slow, typical, unit, ranks=len({one.row.rank for one in account.rows}))


def length(one: RowAccount) -> int:
    """Give the wall time of a row."""
    return one.row.end - one.row.start


def _slow(slow: RowAccount, typical: RowAccount, unit: Unit, ranks: int) -> str:
    lost = length(slow) - length(typical)
    changes = {
        group: slow.groups.get(group, 0) - typical.groups.get(group, 0)
        for group in {**slow.groups, **typical.groups}
    }
    largest = sorted(changes, key=lambda group: -abs(changes[group]))[:3]
    named = [group for group in largest if abs(changes[group]) >= _NOTABLE * lost]
    why = " · ".join(f"{PRINTED[group]} {_signed(changes[group], unit)}" for group in named)
    whose = f" of rank {slow.row.rank}" if ranks > 1 else ""
    took = f"{unit.of(length(slow))} {unit.name} ({_signed(lost, unit)})"
    return f"step {slow.row.step}{whose} {took}: {why}"


def _signed(ns: int, unit: Unit) -> str:
    return f"{'+' if ns >= 0 else '−'}{unit.of(abs(ns))}"


def rank_lines(study: Study) -> Iterator[str]:
    """Give a few ranks, or the slowest and fastest of many; and whom the others waited for."""
    by_rank: dict[int, list[RowAccount]] = {}
    for one in study.account.rows:
        if one.row.rank is not None:
            by_rank.setdefault(one.row.rank, []).append(one)
    if len(by_rank) < 2:  # noqa: PLR2004 - one rank is the account itself
        return
    means = {rank: sum(map(length, rows)) / len(rows) for rank, rows in by_rank.items()}
    unit = unit_for(max(means.values()))
    order = sorted(means) if len(means) <= _FEW else sorted(means, key=lambda rank: -means[rank])
    shown = order if len(order) <= _FEW else [*order[:3], order[-1]]
    for rank in shown:
        yield f"rank {rank} {_rank(by_rank[rank], means[rank], unit)}"
    if len(order) > len(shown):
        yield f"{len(order) - len(shown)} more ranks between the third slowest and the fastest"
    per = max(1, study.account.steps or 1)
    for one in study.stragglers[:3]:
        yield (
            f"the others waited for rank {one.rank}: {duration(one.ns / per)} a step and device "
            f"({count(one.waits)} waits)"
        )


def _rank(rows: Sequence[RowAccount], mean: float, unit: Unit) -> str:
    groups: dict[str, int] = {}
    for row in rows:
        for group, ns in row.groups.items():
            groups[group] = groups.get(group, 0) + ns
    wall = sum(map(length, rows)) or 1
    largest = sorted(groups, key=lambda group: -groups[group])[:3]
    make = " · ".join(f"{PRINTED[group]} {percent(groups[group] / wall)}" for group in largest)
    return f"{unit.of(mean)} {unit.name}: {make}"


def health_lines(health: StudyHealth) -> Iterator[str]:
    """Say how far the numbers can be trusted; what names a trace holds is made safe."""
    recorded = health.launches_recorded
    launches = "" if recorded is None else f" · launches recorded {percent(recorded)}"
    yield f"{health.events:,} events ({clean(health.source)}){launches}"
    for note in health.notes:
        yield clean(note)
