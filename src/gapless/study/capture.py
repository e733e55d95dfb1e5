"""One capture, from its columns to its summary."""

import re
from collections import Counter
from typing import Final

import numpy as np

from gapless.accounting import Joined, account
from gapless.accounting.clock import seen
from gapless.accounting.memory import give_back
from gapless.accounting.steps import find_steps
from gapless.accounting.tags import DATA
from gapless.accounting.threads import Threads
from gapless.errors import UsageError
from gapless.model import category
from gapless.model.account import Account
from gapless.model.leaf import LEAF
from gapless.model.ledger import Ledger
from gapless.model.study import Straggler
from gapless.model.trace import Int64
from gapless.study.leaves import look_into
from gapless.study.options import Options
from gapless.study.part import Evidence, Part
from gapless.study.tables import build
from gapless.study.tables.passes import pass_sites, with_passes
from gapless.study.tables.sites import site_table
from gapless.study.tables.work import work_table
from gapless.study.view import View

_EVER: Final = 2**62  # ns: 146 years; twice of it is still an integer
_SYNC: Final = re.compile(
    r"^((cuda|hip)(Device|Stream|Event)Synchronize|cu(Ctx|Stream|Event)Synchronize)$"
)
_LAUNCH: Final = re.compile(
    r"^(cuda|cu|hip)(ExtModule|Ext|Module|Graph)?(Launch(?!HostFunc)|Memcpy|Memset)"
)


def summarise(joined: Joined, ledger: Ledger, options: Options) -> Part:
    """Reduce a capture to its account, tables, evidence. Raises ``UsageError`` for no such step."""
    whole = account([ledger], _rows(ledger, options))
    give_back()
    view = _view(joined, ledger, whole)
    return Part(
        evidence=_evidence(view),
        account=whole,
        tables=with_passes(build(view, by_shape=options.by_shape), view),
        leaf=look_into(view, options),
        stragglers=_stragglers(view),
        backlog_ns=_backlog(view),
        ours=seen(view.trace),
        sites=(*site_table(view), *pass_sites(view)),
        work=work_table(view),
    )


def _rows(ledger: Ledger, options: Options) -> list[list[int]] | None:
    """Give the rows of the chosen steps, warm-up or not; ``None`` for all but the warm-up."""
    chosen = options.numbers()
    if chosen is None:
        return None
    found = [
        at for at, row in enumerate(ledger.rows) if row.step is not None and row.step in chosen
    ]
    if not found:
        have = sorted({row.step for row in ledger.rows if row.step is not None})
        known = f"it has steps {have[0]} to {have[-1]}" if have else "it has no steps"
        raise UsageError(f"no step of the capture is in {options.steps!r}: {known}")
    return [found]


def _view(joined: Joined, ledger: Ledger, whole: Account) -> View:
    side = joined.threads
    starts, ends = _spans(side, whole)
    classes = joined.known["class"]
    return View(side.trace, ledger, whole, side, joined.activities, starts, ends, classes)


def _spans(side: Threads, whole: Account) -> tuple[Int64, Int64]:
    """Give the host time of the counted steps; all time where the capture has none."""
    steps = find_steps(side)
    if steps is None or steps.numbers is None:
        return np.array([-_EVER], np.int64), np.array([_EVER], np.int64)
    counted = {one.row.step for one in whole.rows}
    keep = np.array([number in counted for number in steps.numbers], bool)
    return steps.boundaries[:-1][keep], steps.boundaries[1:][keep]


def _evidence(view: View) -> Evidence:
    trace, ledger, acts = view.trace, view.ledger, view.acts
    kinds = np.bincount(trace.events.category, minlength=len(category.LABELS))
    devices = [device for device in trace.devices if device.name]
    return Evidence(
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
        launches=_launches(view),
        host_events=int(kinds[[category.CPU_OP, *category.CALLS]].sum()),
        has_shapes=any(shape.dims for shape in trace.shapes),
        has_stacks=bool(kinds[category.PYTHON_FUNCTION]),
        has_sync_records=bool(kinds[category.SYNC]),
        has_memory=bool(len(trace.memory.time)),
        streams=_streams(view),
        syncs=_syncs(view),
    )


def _streams(view: View) -> int:
    """Count the streams that the busiest device (by streams) worked on."""
    pairs = set(zip(view.acts.device.tolist(), view.acts.stream.tolist(), strict=True))
    return max(Counter(device for device, _ in pairs).values(), default=0)


def _syncs(view: View) -> int:
    calls = view.counted(*category.CALLS)
    named = np.array([_SYNC.match(name) is not None for name in view.trace.names], bool)
    return int(named[view.trace.events.name[calls]].sum())


def _launches(view: View) -> int:
    events = view.trace.events
    named = np.array([_LAUNCH.match(name) is not None for name in view.trace.names], bool)
    return int((np.isin(events.category, category.CALLS) & named[events.name]).sum())


def _stragglers(view: View) -> tuple[Straggler, ...]:
    ledger = view.ledger
    pieces = view.charged_to([LEAF["comm.straggler_wait"]])
    pieces = pieces[ledger.facets.peer[pieces] >= 0]
    length = ledger.end[pieces] - ledger.start[pieces]
    peer = ledger.facets.peer[pieces]
    return tuple(
        Straggler(rank, int(length[peer == rank].sum()), int((peer == rank).sum()))
        for rank in np.unique(peer).tolist()
    )


def _backlog(view: View) -> int | None:
    """Give how long devices had still to work when main began to wait for data, median.

    Where it never waits in a counted step: when a step ends.
    """
    acts, side = view.acts, view.side
    if not len(acts):
        return None
    main = side.of(side.main)
    starts = view.trace.events.start[main[side.tags.order[main] == DATA]]
    starts = starts[view.inside(starts)]
    asked = starts if len(starts) else view.ends
    order = np.argsort(acts.call_start, kind="stable")
    reach = np.maximum.accumulate(acts.end[order])
    before = np.searchsorted(acts.call_start[order], asked)
    left = np.where(before > 0, reach[before - 1] - asked, 0).clip(0)
    return int(np.sort(left)[(len(left) - 1) // 2]) if len(left) else None
