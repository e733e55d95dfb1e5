"""What the profiler cost the steps of windows that cannot be replayed, and those steps without it.

As in ``replay.predict.alpha``: a cost for each traced event, found from the run's own plain
steps.
"""

from typing import Final

from msgspec.structs import replace

from gapless.model.account import RowAccount
from gapless.model.evidence import Evidence
from gapless.model.tables import Operator
from gapless.replay.predict.alpha import MAX_TRACE_NS, USUAL_ALPHA_NS
from gapless.replay.predict.mismatch import MAX_ALPHA, MIN_ALPHA

_MIN_KEPT_SHARE: Final = 0.4  # of the traced time, at least: no slower profiler was seen
_UNTRACED: Final = ("comm.", "idle.host.unframed", "idle.data", "idle.gc", "idle.io_main")


def tracing_cost_ns(evidence: Evidence) -> tuple[float, float, float]:
    """Return what tracing cost a step of the windows, in ns: at least, likely, at most.

    Charged to each traced event. The likely cost makes the windows' steps as long as un-profiled
    ones, within what hosts are known to take for it; the least is as if the host had been slower
    instead (which leaves shares of a step as they are). Nothing is known of the account of a
    device.
    """
    steps, plain_steps = evidence.study.steps, evidence.run_steps
    if evidence.on_device or not evidence.study.account.steps:
        return 0.0, 0.0, 0.0
    n_events = count_traced(evidence)
    likely_ns = USUAL_ALPHA_NS * n_events
    if steps is not None and plain_steps is not None and not plain_steps.profiled_only:
        likely_ns = float(steps.median_ns - plain_steps.median_ns)
    likely_ns = min(max(likely_ns, MIN_ALPHA * n_events), MAX_TRACE_NS * n_events)
    return MIN_ALPHA * n_events, likely_ns, max(likely_ns, MAX_ALPHA * n_events)


def count_traced(evidence: Evidence) -> float:
    """Return how many operators were traced in a step of the windows."""
    calls = sum(operator.calls for operator in evidence.study.tables.operators)
    return calls / (evidence.study.account.steps or 1)


def remove_tracing(evidence: Evidence, ns: float) -> Evidence:
    """Return the evidence as if tracing had cost a step so much less.

    The cost is removed where events are: not from waits, transfers and silences, which have
    none.
    """
    study = evidence.study
    rows = tuple(_ease_row(row, ns) for row in study.account.rows)
    traced_ns = sum(_traced_ns(row) for row in study.account.rows)
    kept_share = sum(map(_traced_ns, rows)) / traced_ns if traced_ns else 1.0
    operators = tuple(scale_operator(operator, kept_share) for operator in study.tables.operators)
    tables = replace(study.tables, operators=operators)
    account = replace(study.account, rows=rows)
    return replace(evidence, study=replace(study, account=account, tables=tables))


def _ease_row(account_row: RowAccount, ns: float) -> RowAccount:
    traced_ns = _traced_ns(account_row)
    kept_share = max(_MIN_KEPT_SHARE, 1 - ns / traced_ns) if traced_ns else 1.0
    leaves = {
        leaf: leaf_ns if leaf.startswith(_UNTRACED) else round(leaf_ns * kept_share)
        for leaf, leaf_ns in account_row.leaves.items()
    }
    row = replace(account_row.row, end=account_row.row.start + sum(leaves.values()))
    return replace(account_row, row=row, leaves=leaves)


def _traced_ns(account_row: RowAccount) -> int:
    return sum(ns for leaf, ns in account_row.leaves.items() if not leaf.startswith(_UNTRACED))


def scale_operator(operator: Operator, share: float) -> Operator:
    """Return a rank's part of calls that were counted over all ranks: all call equally often."""
    return replace(
        operator,
        host_self_ns=round(operator.host_self_ns * share),
        host_total_ns=round(operator.host_total_ns * share),
    )
