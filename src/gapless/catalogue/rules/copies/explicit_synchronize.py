"""Calls in the step that do nothing but wait for the device."""

from typing import Final

from msgspec import Struct

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.declare.selectors import name_line
from gapless.catalogue.fixes.host.no_synchronize import DEVICE_WAITS, no_synchronize
from gapless.catalogue.queries import windows
from gapless.model.change import Omit
from gapless.model.edit import Location
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure
from gapless.model.footprint import SyncUse

SYNC_CALLS: Final = (*DEVICE_WAITS, "*EventSynchronize")
_MIN_CALLS_PER_STEP: Final = 0.02  # a step
# A step, if only windows show them: a profiler waits for the device when it stops.
_MIN_WINDOW_CALLS: Final = 0.5


class _SyncWaits(Struct, frozen=True):
    per_step: float
    ns: float
    location: Location | None
    n_other_lines: int  # other lines


@rule(
    "G306",
    "explicit-synchronize",
    figures="""
    # Left over from measuring
    > torch.cuda.synchronize() and the like are called 2 times a step (train.py:88, and on 1 other
      line); the host waits there for 17.0 ms of each 24.0 ms step, and the device is idle for 4.0
      ms afterwards.
    gpu(synchronize=200)
    busy.tc_math 20, idle.sync.return 0.1, idle.sync.refill 3.9
    example_sync("/project/train.py", 88, "main", 1, 15)
    example_sync("/project/train.py", 91, "main", 1, 2)
    operator("cudaDeviceSynchronize", calls=2, host_ms=17)
    # In a trace of another tool
    > torch.cuda.synchronize() and the like are called 1 time a step; the host waits there for 15.0
      ms of each 24.0 ms step, and the device is idle for 4.0 ms afterwards.
    busy.tc_math 20, idle.sync.refill 4
    operator("cudaDeviceSynchronize", calls=1, host_ms=15)
    # Once, before the first step
    gpu(synchronize=1)
    busy.tc_math 20
    example_sync("/project/train.py", 70, "main", 0, 0)
    """,
)
def explicit_synchronize(evidence: Evidence) -> Detection | None:
    """Recognise calls in the step that do nothing but wait for the device.

    ## Why it costs time
    During the wait the host launches nothing, and afterwards the device is idle until the host has
    launched new work. torch waits by itself where a result needs it.

    ## How it is measured
    The recorder sees these calls with their lines, windows show them by name. The cost is that of
    the steps replayed without them.
    """
    waits = _find_waits(evidence)
    if waits is None:
        return None
    lost_ns = evidence.per_step("idle.sync")
    noun = "times" if windows.format_count(waits.per_step) != "1" else "time"
    other_words = (
        f", and on {waits.n_other_lines} other line{'s' if waits.n_other_lines > 1 else ''}"
    )
    line_ref = (
        f" ({name_line(waits.location)}{other_words if waits.n_other_lines else ''})"
        if waits.location
        else ""
    )
    idle_words = (
        f", and the device is idle for {windows.ms(lost_ns)} afterwards"
        if evidence.on_device
        else ""
    )
    return explicit_synchronize.detection(
        "torch.cuda.synchronize() and the like are called "
        f"{windows.format_count(waits.per_step)} {noun} a step{line_ref}; the host waits there for "
        f"{windows.format_step_part(evidence, waits.ns)}{idle_words}.",
        Omit(SYNC_CALLS),
        location=waits.location,
        measures=(
            Measure("calls a step", waits.per_step, ""),
            Measure("waited, a step", waits.ns, "ns"),
            Measure("idle afterwards, a step", lost_ns, "ns"),
        ),
        helps=(no_synchronize.request(),),
    )


def _find_waits(evidence: Evidence) -> _SyncWaits | None:
    if evidence.footprint is not None:
        return _sum_syncs(evidence.footprint.syncs)
    calls = windows.sum_calls(evidence, *SYNC_CALLS)
    if calls.count < _MIN_WINDOW_CALLS:
        return None
    return _SyncWaits(calls.count, calls.host_ns, None, 0)


def _sum_syncs(syncs: tuple[SyncUse, ...]) -> _SyncWaits | None:
    rows = [sync for sync in syncs if (sync.per_step or 0) >= _MIN_CALLS_PER_STEP]
    if not rows:
        return None
    main_sync = rows[0]
    has_location = main_sync.file is not None and main_sync.line is not None
    return _SyncWaits(
        sum(sync.per_step or 0 for sync in rows),
        sum(sync.step_ns or 0 for sync in rows),
        Location(main_sync.file or "", main_sync.line or 0, main_sync.function)
        if has_location
        else None,
        len(rows) - 1,
    )
