"""Calls in the step that do nothing but wait for the device."""

from dataclasses import dataclass
from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.choosing import named
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import operator, waited_at
from gapless.model.change import Omit
from gapless.model.edit import Where
from gapless.model.finding import Loss, Measure
from gapless.model.footprint import SyncUse
from gapless.model.seen import Seen

WAITS: Final = ("*DeviceSynchronize", "*EventSynchronize")
_RARE: Final = 0.02  # a step
_SOME: Final = 0.5  # a step, where only windows tell: a profiler waits for the device when it stops


@dataclass(frozen=True)
class _Waits:
    per_step: float
    ns: float
    where: Where | None
    more: int  # other lines


@rule(
    "G306",
    "explicit-synchronize",
    since="0.1",
    figures=[
        Figure(
            "Left over from measuring",
            "torch.cuda.synchronize() and the like are called 2 times a step (train.py:88, and on "
            "1 other line); the host waits there for 17.0 ms of each 24.0 ms step, and the device "
            "is idle for 4.0 ms afterwards.",
            stated(
                examples.gpu(synchronize=200),
                {"busy.tc_math": 20, "idle.sync.return": 0.1, "idle.sync.refill": 3.9},
                waited_at("/project/train.py", 88, "main", 1, 15),
                waited_at("/project/train.py", 91, "main", 1, 2),
                operator("cudaDeviceSynchronize", calls=2, host_ms=17),
            ),
        ),
        Figure(
            "In a trace of another tool",
            "torch.cuda.synchronize() and the like are called 1 time a step; the host waits there "
            "for 15.0 ms of each 24.0 ms step, and the device is idle for 4.0 ms afterwards.",
            stated(
                None,
                {"busy.tc_math": 20, "idle.sync.refill": 4},
                operator("cudaDeviceSynchronize", calls=1, host_ms=15),
            ),
        ),
        Figure(
            "Once, before the first step",
            None,
            stated(
                examples.gpu(synchronize=1),
                {"busy.tc_math": 20},
                waited_at("/project/train.py", 70, "main", 0, 0),
            ),
        ),
    ],
)
def explicit_synchronize(seen: Seen) -> Loss | None:
    """Recognise calls in the step that do nothing but wait for the device.

    ## Why it costs time
    Until the wait is over the host launches nothing, and then the device has nothing to do until
    the host has. torch waits by itself where a result needs it.

    ## How it is measured
    The recorder sees these calls with their lines, windows see them by name. The cost is that of
    the steps replayed without them.
    """
    found = _waits(seen)
    if found is None:
        return None
    lost = seen.per_step("idle.sync")
    plural = "times" if windowed.times(found.per_step) != "1" else "time"
    others = f", and on {found.more} other line{'s' if found.more > 1 else ''}"
    place = f" ({named(found.where)}{others if found.more else ''})" if found.where else ""
    idle = f", and the device is idle for {windowed.ms(lost)} afterwards" if seen.on_device else ""
    return explicit_synchronize.loss(
        "torch.cuda.synchronize() and the like are called "
        f"{windowed.times(found.per_step)} {plural} a step{place}; the host waits there for "
        f"{windowed.of_step(seen, found.ns)}{idle}.",
        Omit(WAITS),
        where=found.where,
        evidence=(
            Measure("calls a step", found.per_step, ""),
            Measure("waited, a step", found.ns, "ns"),
            Measure("idle afterwards, a step", lost, "ns"),
        ),
        helps=("no-synchronize",),
    )


def _waits(seen: Seen) -> _Waits | None:
    recorded = seen.study.recorded
    if recorded is not None and recorded.footprint is not None:
        return _recorded(recorded.footprint.syncs)
    calls = windowed.calls(seen, *WAITS)
    if calls.count < _SOME:
        return None
    return _Waits(calls.count, calls.host_ns, None, 0)


def _recorded(syncs: tuple[SyncUse, ...]) -> _Waits | None:
    rows = [one for one in syncs if (one.per_step or 0) >= _RARE]
    if not rows:
        return None
    first = rows[0]
    known = first.file is not None and first.line is not None
    return _Waits(
        sum(one.per_step or 0 for one in rows),
        sum(one.step_ns or 0 for one in rows),
        Where(first.file or "", first.line or 0, first.function) if known else None,
        len(rows) - 1,
    )
