"""The sentences of a report that every form of text shares."""

from collections.abc import Iterator, Mapping
from typing import Final

from gapless.model.account import Account, RowAccount
from gapless.model.leaf import PRINTED
from gapless.model.study import Steps, Study, StudyHealth
from gapless.report.ranks.spread import MAX_LISTED, StepMakeup, mean_steps, own_parts, spread_lines
from gapless.report.sections.account import AccountSheet
from gapless.report.text.numbers import Unit, count, duration, percent, unit_for
from gapless.report.text.text import clean

_MIN_LOSS_SHARE: Final = 0.1  # of a slow step's loss: smaller parts of it are not named
_MIN_EXCESS: Final = 0.02  # above the median: only the slowest step is shown if it is less slow


def headline(study: Study, sheet: AccountSheet) -> str:
    """Describe in one line the capture and how much of the time the device worked."""
    account = study.account
    length = f"{sheet.unit.text(sheet.digits)} {sheet.unit.name}"
    steps = len({row_account.row.step for row_account in account.rows})
    if account.steps is None:
        capture = f"a capture of {length}"
    else:
        capture = f"{steps} step{'s' if steps != 1 else ''} of {length}"
    devices = {
        (row_account.row.rank, row_account.row.device)
        for row_account in account.rows
        if row_account.row.device is not None
    }
    busy_share = percent(account.busy_ns() / account.wall_ns) if account.wall_ns else "0 %"
    if not devices:
        return f"gapless · {capture} on the CPU alone"
    name = clean(study.run.device or "an unnamed device")
    device_text = name if len(devices) == 1 else f"{len(devices)} × {name}"
    activity = "the GPU worked" if len(devices) == 1 else "the GPUs worked"
    return f"gapless · {capture} on {device_text} · {activity} {busy_share} of the time"


def footing(study: Study) -> str:
    """Describe what the visible sum is based on: clock error, resolution, number of steps."""
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
    """Describe how long steps take, how much that varies, and where the slowest lost time."""
    unit = unit_for(steps.median_ns)
    yield (
        f"median {unit.fmt(steps.median_ns)} {unit.name} · p10 {unit.fmt(steps.p10_ns)} "
        f"· p90 {unit.fmt(steps.p90_ns)} · found by {clean(steps.rule)}"
    )
    typical = steps.typical
    if typical is None or len(account.rows) < 2:  # noqa: PLR2004 - nothing to compare with
        return
    for index, slow_row in enumerate(steps.slowest):
        if row_ns(slow_row) > row_ns(typical) * (1 if index == 0 else 1 + _MIN_EXCESS):
            yield _slow_text(
                slow_row,
                typical,
                unit,
                ranks=len({row_account.row.rank for row_account in account.rows}),
            )


def row_ns(row_account: RowAccount) -> int:
    """Return the wall time of a row."""
    return row_account.row.end - row_account.row.start


def _slow_text(slow_row: RowAccount, typical: RowAccount, unit: Unit, ranks: int) -> str:
    lost_ns = row_ns(slow_row) - row_ns(typical)
    changes_ns = {
        group: slow_row.groups.get(group, 0) - typical.groups.get(group, 0)
        for group in {**slow_row.groups, **typical.groups}
    }
    largest = sorted(changes_ns, key=lambda group: -abs(changes_ns[group]))[:3]
    notable = [group for group in largest if abs(changes_ns[group]) >= _MIN_LOSS_SHARE * lost_ns]
    why = " · ".join(
        f"{PRINTED[group]} {_signed_text(changes_ns[group], unit)}" for group in notable
    )
    rank_text = f" of rank {slow_row.row.rank}" if ranks > 1 else ""
    duration_text = f"{unit.fmt(row_ns(slow_row))} {unit.name} ({_signed_text(lost_ns, unit)})"
    return f"step {slow_row.row.step}{rank_text} {duration_text}: {why}"


def _signed_text(ns: int, unit: Unit) -> str:
    return f"{'+' if ns >= 0 else '−'}{unit.fmt(abs(ns))}"


def rank_lines(study: Study) -> Iterator[str]:
    """Describe a few ranks one by one, many by how they spread; and whom the others waited for."""
    steps = mean_steps(study.account.rows)
    if len(steps) < 2:  # noqa: PLR2004 - one rank is the account itself
        return
    lengths_ns = {rank: sum(groups.values()) for rank, groups in steps.items()}
    if len(steps) > MAX_LISTED:
        members = [
            StepMakeup(f"rank {rank}", lengths_ns[rank], own_parts(groups))
            for rank, groups in steps.items()
        ]
        yield from spread_lines(members, "ranks")
    else:
        unit = unit_for(max(lengths_ns.values()))
        for rank, groups in steps.items():
            yield f"rank {rank} {_rank_text(groups, lengths_ns[rank], unit)}"
    n = max(1, study.account.steps or 1)
    for item in study.stragglers[:3]:
        yield (
            f"the others waited for rank {item.rank}: {duration(item.ns / n)} a step and device "
            f"({count(item.waits)} waits)"
        )


def _rank_text(groups: Mapping[str, float], mean_ns: float, unit: Unit) -> str:
    largest = sorted(groups, key=lambda group: -groups[group])[:3]
    shares = ((PRINTED[group], percent(groups[group] / (mean_ns or 1))) for group in largest)
    makeup = " · ".join(" ".join(pair) for pair in shares)
    return f"{unit.fmt(mean_ns)} {unit.name}: {makeup}"


def health_lines(health: StudyHealth) -> Iterator[str]:
    """Describe how far the numbers can be trusted; names from a trace are made safe."""
    recorded_share = health.launches_recorded
    launches = "" if recorded_share is None else f" · launches recorded {percent(recorded_share)}"
    yield f"{health.events:,} events ({clean(health.source)}){launches}"
    for note in health.notes:
        yield clean(note)
