"""One capture, from its columns to its summary."""

import re
from collections import Counter
from typing import Final

import numpy as np

from gapless.accounting import JoinedTrace, sum_ledgers
from gapless.accounting.clock import clock_ranges
from gapless.accounting.host.steps import find_steps
from gapless.accounting.host.tags import DATA
from gapless.accounting.host.threads import Threads
from gapless.accounting.memory import release_memory
from gapless.capture.leaf_pieces import describe_leaf, describe_leaves
from gapless.capture.picture import draw_window
from gapless.capture.ranks.summary import CaptureFacts, CaptureSummary
from gapless.capture.tables import build_tables
from gapless.capture.tables.passes import add_passes, pass_sites
from gapless.capture.tables.sites import site_table
from gapless.capture.tables.updates import add_updates
from gapless.capture.tables.work import work_table
from gapless.capture.view import CaptureView
from gapless.errors import UsageError
from gapless.model import category
from gapless.model.account import Account
from gapless.model.leaf import LEAF
from gapless.model.ledger import Ledger
from gapless.model.options import Options
from gapless.model.study import Straggler
from gapless.model.trace import Int64

_UNBOUNDED_NS: Final = 2**62  # ns: 146 years; twice of it is still an integer
_SYNC: Final = re.compile(
    r"^((cuda|hip)(Device|Stream|Event)Synchronize|cu(Ctx|Stream|Event)Synchronize)$"
)
_LAUNCH: Final = re.compile(
    r"^(cuda|cu|hip)(ExtModule|Ext|Module|Graph)?(Launch(?!HostFunc)|Memcpy|Memset)"
)


def summarise_capture(joined: JoinedTrace, ledger: Ledger, options: Options) -> CaptureSummary:
    """Reduce a capture to its account, tables, evidence. Raises ``UsageError`` for no such step."""
    capture_account = sum_ledgers([ledger], _select_rows(ledger, options))
    release_memory()
    view = build_view(joined, ledger, capture_account)
    return CaptureSummary(
        facts=_capture_facts(view, options),
        account=capture_account,
        tables=add_updates(add_passes(build_tables(view, by_shape=options.by_shape), view), view),
        leaf=describe_leaf(view, options),
        stragglers=_stragglers(view),
        backlog_ns=_median_backlog(view),
        own_ranges=clock_ranges(view.trace),
        sites=(*site_table(view), *pass_sites(view)),
        work=work_table(view),
        picture=draw_window(view) if options.pictured else None,
        leaves=describe_leaves(view) if options.pictured else (),
    )


def _select_rows(ledger: Ledger, options: Options) -> list[list[int]] | None:
    """Return the rows of the chosen steps, warm-up or not; ``None`` for all but the warm-up."""
    selection = options.numbers()
    if selection is None:
        return None
    row_numbers = [
        index
        for index, row in enumerate(ledger.rows)
        if row.step is not None and row.step in selection
    ]
    if not row_numbers:
        step_numbers = sorted({row.step for row in ledger.rows if row.step is not None})
        available = (
            f"it has steps {step_numbers[0]} to {step_numbers[-1]}"
            if step_numbers
            else "it has no steps"
        )
        raise UsageError(f"no step of the capture is in {options.steps!r}: {available}")
    return [row_numbers]


def build_view(joined: JoinedTrace, ledger: Ledger, capture_account: Account) -> CaptureView:
    """Return a capture with all that its tables and its picture need."""
    side = joined.threads
    starts, ends = _step_spans(side, capture_account)
    classes = joined.activity_facets["class"]
    return CaptureView(
        side.trace, ledger, capture_account, side, joined.activities, starts, ends, classes
    )


def _step_spans(side: Threads, capture_account: Account) -> tuple[Int64, Int64]:
    """Return the host time of the counted steps; all time where the capture has none."""
    steps = find_steps(side)
    if steps is None or steps.numbers is None:
        return np.array([-_UNBOUNDED_NS], np.int64), np.array([_UNBOUNDED_NS], np.int64)
    counted_steps = {row.row.step for row in capture_account.rows}
    keep = np.array([number in counted_steps for number in steps.numbers], bool)
    return steps.boundaries[:-1][keep], steps.boundaries[1:][keep]


def _capture_facts(view: CaptureView, options: Options) -> CaptureFacts:
    trace, ledger, acts = view.trace, view.ledger, view.acts
    kinds = np.bincount(trace.events.category, minlength=len(category.LABELS))
    devices = [device for device in trace.devices if device.name]
    return CaptureFacts(
        path=trace.path,
        rank=trace.rank,
        world=trace.distributed.world if trace.distributed else None,
        device=devices[0].name if devices else None,
        capability=devices[0].compute_capability if devices else None,
        versions=trace.versions,
        source=trace.health.source,
        events=trace.written_events or len(trace.events),
        dropped=trace.health.dropped,
        repaired=trace.health.repaired,
        truncated=trace.health.truncated,
        resolution_ns=trace.health.resolution_ns,
        reader_notes=trace.health.notes,
        partition_notes=ledger.notes,
        step_rule=ledger.step_rule,
        clock_error_ns=ledger.clock_error_ns,
        activities=len(acts),
        launched=int(np.sum(acts.call >= 0)) if len(acts) else None,
        launches=_count_launches(view),
        host_events=int(kinds[[category.CPU_OP, *category.CALLS]].sum()),
        has_shapes=any(shape.dims for shape in trace.shapes),
        has_stacks=bool(kinds[category.PYTHON_FUNCTION]),
        has_sync_records=bool(kinds[category.SYNC]),
        streams=_count_streams(view),
        syncs=_count_syncs(view),
        step=options.step,
    )


def _count_streams(view: CaptureView) -> int:
    """Count the streams that the busiest device (by streams) worked on."""
    pairs = set(zip(view.acts.device.tolist(), view.acts.stream.tolist(), strict=True))
    return max(Counter(device for device, _ in pairs).values(), default=0)


def _count_syncs(view: CaptureView) -> int:
    calls = view.counted_events(*category.CALLS)
    is_sync = np.array([_SYNC.match(name) is not None for name in view.trace.names], bool)
    return int(is_sync[view.trace.events.name[calls]].sum())


def _count_launches(view: CaptureView) -> int:
    events = view.trace.events
    is_launch = np.array([_LAUNCH.match(name) is not None for name in view.trace.names], bool)
    return int((np.isin(events.category, category.CALLS) & is_launch[events.name]).sum())


def _stragglers(view: CaptureView) -> tuple[Straggler, ...]:
    ledger = view.ledger
    pieces = view.charged_to([LEAF["comm.straggler_wait"]])
    pieces = pieces[ledger.facets.peer[pieces] >= 0]
    length = ledger.end[pieces] - ledger.start[pieces]
    peer = ledger.facets.peer[pieces]
    return tuple(
        Straggler(rank, int(length[peer == rank].sum()), int((peer == rank).sum()))
        for rank in np.unique(peer).tolist()
    )


def _median_backlog(view: CaptureView) -> int | None:
    """Return how long devices had still to work when main began to wait for data, median.

    Where it never waits in a counted step: when a step ends.
    """
    acts, side = view.acts, view.side
    if not len(acts):
        return None
    main = side.frames_of(side.main)
    starts = view.trace.events.start[main[side.tags.order[main] == DATA]]
    starts = starts[view.is_inside(starts)]
    wait_starts = starts if len(starts) else view.ends
    order = np.argsort(acts.call_start, kind="stable")
    busy_until = np.maximum.accumulate(acts.end[order])
    before = np.searchsorted(acts.call_start[order], wait_starts)
    remaining_ns = np.where(before > 0, busy_until[before - 1] - wait_starts, 0).clip(0)
    return int(np.sort(remaining_ns)[(len(remaining_ns) - 1) // 2]) if len(remaining_ns) else None
