"""A device that is slower than it could be: it is too hot, or its clock is held down."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.ruling import Figure, NotSeenError, rule
from gapless.catalogue.seen_examples import changed
from gapless.catalogue.seen_examples import seen as stated
from gapless.model.change import Scale
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.run import DeviceState
from gapless.model.seen import Seen

_SLOWER: Final = 0.95  # of the highest clock seen: above it nothing is lost
_OFTEN: Final = 0.1  # of the looks while it worked
_EXPECTED: Final = ("power",)  # a device at its power limit works as it was built to
_POWERED: Final = 0.85  # of the highest clock: below it a power limit is worth a word
_RUN: Final = stated(examples.gpu(), {"busy.tc_math": 40})


def _state(clock: float, **held: float) -> DeviceState:
    return DeviceState(0, 0.98, clock, 1980.0, held, 0.0, None, None, 86.0)


@rule(
    "G801",
    "throttled-device",
    since="0.1",
    figures=[
        Figure(
            "Too hot",
            "GPU 0 ran at 1485 MHz of 1980 MHz while it worked: heat held it back in 70 % of the "
            "looks.",
            changed(_RUN, devices_seen=(_state(1485.0, heat=0.7),)),
        ),
        Figure(
            "At its power limit, where products keep it",
            None,
            changed(_RUN, devices_seen=(_state(1850.0, power=0.9),)),
        ),
        Figure("At its full clock", None, changed(_RUN, devices_seen=(_state(1980.0),))),
    ],
)
def throttled_device(seen: Seen) -> Loss | None:
    """Recognise a device whose clock is held back while it works.

    ## Why it costs time
    What computes takes longer in proportion to the clock; what waits for memory hardly does.

    ## How it is measured
    By looks at the clock, and at the driver's reasons, four times a second and only while kernels
    ran. The highest clock seen in this run is what it could be.
    """
    recorded = seen.study.recorded
    states = () if recorded is None else recorded.devices_seen
    known = [one for one in states if one.clock_mhz and one.best_mhz]
    if not known and not seen.has_device:
        return None
    if not known:
        raise NotSeenError("clocks", "the device's clock was not sampled")
    worst = min(known, key=_clock)
    reason, share = max(worst.held.items(), key=lambda one: one[1], default=("", 0.0))
    if not _is_lost(worst, reason, share):
        return None
    ratio = _clock(worst)
    return throttled_device.loss(
        f"GPU {worst.number} ran at {worst.clock_mhz:.0f} MHz of {worst.best_mhz:.0f} MHz while "
        f"it worked: {reason} held it back in {share:.0%} of the looks.".replace("%", " %"),
        Scale(_unthrottled(ratio), leaves=("busy.",)),
        evidence=(
            Measure("clock while it worked", worst.clock_mhz or 0.0, "MHz"),
            Measure("highest clock seen", worst.best_mhz or 0.0, "MHz"),
            *((Measure("highest temperature", worst.celsius, "°C"),) if worst.celsius else ()),
        ),
        no_remedy=f"It is for who runs the machine: cooling, power limit, clocks that were set "
        f"(nvidia-smi -q -d PERFORMANCE); a step is {windowed.ms(seen.step_ns or 0)} meanwhile.",
    )


def _unthrottled(ratio: float) -> Interval:
    """Give what kernels take at the full clock: from all that computes to what mostly moves."""
    lost = 1 - ratio
    return Interval(1 - lost, 1 - 0.65 * lost, 1 - 0.3 * lost)


def _clock(one: DeviceState) -> float:
    return (one.clock_mhz or 0.0) / (one.best_mhz or 1.0)


def _is_lost(one: DeviceState, reason: str, share: float) -> bool:
    limit = _POWERED if reason in _EXPECTED else _SLOWER
    return share >= _OFTEN and _clock(one) < limit
