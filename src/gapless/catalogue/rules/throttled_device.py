"""A device that is slower than it could be: it is too hot, or its clock is held down."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.ruling import RuleFigure, NotObservedError, rule
from gapless.catalogue.seen_examples import with_recorded
from gapless.catalogue.seen_examples import evidence_of as stated
from gapless.model.change import Scale
from gapless.model.finding import Detection, Measure
from gapless.model.interval import Estimate
from gapless.model.run import DeviceState
from gapless.model.seen import Evidence

_MAX_CLOCK_RATIO: Final = 0.95  # of the highest clock seen: above it nothing is lost
_MIN_SAMPLE_SHARE: Final = 0.1  # of the looks while it worked
_EXPECTED_REASONS: Final = ("power",)  # a device at its power limit works as it was built to
_MAX_POWER_RATIO: Final = 0.85  # of the highest clock: below it a power limit is worth a word
_EXAMPLE_RUN: Final = stated(examples.gpu(), {"busy.tc_math": 40})


def _device_state(clock: float, **reasons: float) -> DeviceState:
    return DeviceState(0, 0.98, clock, 1980.0, reasons, 0.0, None, None, 86.0)


@rule(
    "G801",
    "throttled-device",
    since="0.1",
    figures=[
        RuleFigure(
            "Too hot",
            "GPU 0 ran at 1485 MHz of 1980 MHz while it worked: heat held it back in 70 % of the "
            "looks.",
            with_recorded(_EXAMPLE_RUN, devices_seen=(_device_state(1485.0, heat=0.7),)),
        ),
        RuleFigure(
            "At its power limit, where products keep it",
            None,
            with_recorded(_EXAMPLE_RUN, devices_seen=(_device_state(1850.0, power=0.9),)),
        ),
        RuleFigure("At its full clock", None, with_recorded(_EXAMPLE_RUN, devices_seen=(_device_state(1980.0),))),
    ],
)
def throttled_device(evidence: Evidence) -> Detection | None:
    """Recognise a device whose clock is held back while it works.

    ## Why it costs time
    What computes takes longer in proportion to the clock; what waits for memory hardly does.

    ## How it is measured
    By looks at the clock, and at the driver's reasons, four times a second and only while kernels
    ran. The highest clock seen in this run is what it could be.
    """
    recorded = evidence.study.recorded
    states = () if recorded is None else recorded.devices_seen
    known_states = [state for state in states if state.clock_mhz and state.best_mhz]
    if not known_states and not evidence.has_device:
        return None
    if not known_states:
        raise NotObservedError("clocks", "the device's clock was not sampled")
    worst = min(known_states, key=_clock_ratio)
    reason, share = max(worst.held.items(), key=lambda pair: pair[1], default=("", 0.0))
    if not _is_held_back(worst, reason, share):
        return None
    ratio = _clock_ratio(worst)
    return throttled_device.detection(
        f"GPU {worst.number} ran at {worst.clock_mhz:.0f} MHz of {worst.best_mhz:.0f} MHz while "
        f"it worked: {reason} held it back in {share:.0%} of the looks.".replace("%", " %"),
        Scale(_full_clock_factor(ratio), leaves=("busy.",)),
        measures=(
            Measure("clock while it worked", worst.clock_mhz or 0.0, "MHz"),
            Measure("highest clock seen", worst.best_mhz or 0.0, "MHz"),
            *((Measure("highest temperature", worst.celsius, "°C"),) if worst.celsius else ()),
        ),
        no_remedy=f"It is for who runs the machine: cooling, power limit, clocks that were set "
        f"(nvidia-smi -q -d PERFORMANCE); a step is {windowed.ms(evidence.step_ns or 0)} meanwhile.",
    )


def _full_clock_factor(ratio: float) -> Estimate:
    """Return what kernels take at the full clock: from all that computes to what mostly moves."""
    lost_share = 1 - ratio
    return Estimate(1 - lost_share, 1 - 0.65 * lost_share, 1 - 0.3 * lost_share)


def _clock_ratio(state: DeviceState) -> float:
    return (state.clock_mhz or 0.0) / (state.best_mhz or 1.0)


def _is_held_back(state: DeviceState, reason: str, share: float) -> bool:
    limit = _MAX_POWER_RATIO if reason in _EXPECTED_REASONS else _MAX_CLOCK_RATIO
    return share >= _MIN_SAMPLE_SHARE and _clock_ratio(state) < limit
