"""What the profiler cost the steps of windows that cannot be replayed, and those steps without it.

As ``replay.alpha``: so much for each traced event, found from the run's own plain steps.
"""

from dataclasses import replace
from typing import Final

from gapless.model.account import RowAccount
from gapless.model.seen import Seen
from gapless.model.tables import Operator
from gapless.replay.alpha import DEAREST, USUAL
from gapless.replay.mismatch import LEAST, MOST

_KEPT: Final = 0.4  # of what is traced, at least: a slower profiler was not seen
_UNTRACED: Final = ("comm.", "idle.host.unframed", "idle.data", "idle.gc", "idle.io_main")


def tracing(seen: Seen) -> tuple[float, float, float]:
    """Give what tracing cost a step of the windows, in ns: at least, likely, at most.

    Of each traced event; likely is what makes the windows' steps as long as those that no profiler
    saw, within what hosts are known to take for it; at least is as if the host had been slower
    instead (which leaves shares of a step as they are). Of the account of a device nothing is known
    """
    steps, recorded = seen.study.steps, seen.study.recorded
    plain = None if recorded is None else recorded.steps
    if seen.on_device or not seen.study.account.steps:
        return 0.0, 0.0, 0.0
    events = traced(seen)
    likely = USUAL * events
    if steps is not None and plain is not None and not plain.profiled_only:
        likely = float(steps.median_ns - plain.median_ns)
    likely = min(max(likely, LEAST * events), DEAREST * events)
    return LEAST * events, likely, max(likely, MOST * events)


def traced(seen: Seen) -> float:
    """Give how many operators were traced in a step of the windows."""
    calls = sum(one.calls for one in seen.study.tables.operators)
    return calls / (seen.study.account.steps or 1)


def eased(seen: Seen, ns: float) -> Seen:
    """Give what would be seen had tracing cost a step so much less.

    It goes where events are: not off waits, transfers and silences, in which there are none.
    """
    study = seen.study
    rows = tuple(_eased(one, ns) for one in study.account.rows)
    whole = sum(_traced(one) for one in study.account.rows)
    keep = sum(map(_traced, rows)) / whole if whole else 1.0
    operators = tuple(part(one, keep) for one in study.tables.operators)
    tables = replace(study.tables, operators=operators)
    account = replace(study.account, rows=rows)
    return replace(seen, study=replace(study, account=account, tables=tables))


def _eased(one: RowAccount, ns: float) -> RowAccount:
    traced = _traced(one)
    keep = max(_KEPT, 1 - ns / traced) if traced else 1.0
    leaves = {
        leaf: took if leaf.startswith(_UNTRACED) else round(took * keep)
        for leaf, took in one.leaves.items()
    }
    row = replace(one.row, end=one.row.start + sum(leaves.values()))
    return replace(one, row=row, leaves=leaves)


def _traced(one: RowAccount) -> int:
    return sum(ns for leaf, ns in one.leaves.items() if not leaf.startswith(_UNTRACED))


def part(row: Operator, share: float) -> Operator:
    """Give a rank's part of calls that were counted over all ranks: they call alike."""
    return replace(
        row,
        host_self_ns=round(row.host_self_ns * share),
        host_total_ns=round(row.host_total_ns * share),
    )
