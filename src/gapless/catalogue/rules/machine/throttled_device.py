"""A device that is slower than it could be: too hot, or with its clock held down."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import windows
from gapless.model.change import Scale
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.finding import Detection, Measure
from gapless.model.run import DeviceState

_MAX_CLOCK_RATIO: Final = 0.95  # of the highest clock seen: above it, nothing is lost
_MIN_SAMPLE_SHARE: Final = 0.1  # of the samples while it worked
_EXPECTED_REASONS: Final = ("power",)  # a device at its power limit works as designed
_MAX_POWER_RATIO: Final = 0.85  # of the highest clock: below it, power limits are reported


@rule(
    "G801",
    "throttled-device",
    figures="""
    make_run() = evidence_of(gpu(), {"busy.tc_math": 40})
    device_state(clock, **reasons) = DeviceState(0, 0.98, clock, 1980.0, reasons, 0.0, None, None,
      86.0)
    # Too hot
    > GPU 0 ran at 1485 MHz of 1980 MHz while it worked: heat held it back in 70 % of the samples.
    with_recorded(make_run(), devices_seen=(device_state(1485.0, heat=0.7),))
    # At its power limit, because of products
    with_recorded(make_run(), devices_seen=(device_state(1850.0, power=0.9),))
    # At its full clock
    with_recorded(make_run(), devices_seen=(device_state(1980.0),))
    """,
)
def throttled_device(evidence: Evidence) -> Detection | None:
    """Recognise a device whose clock is held back while it works.

    ## Why it costs time
    Kernels that compute take longer in proportion to the clock; those bound by memory hardly do.

    ## How it is measured
    By sampling the clock, and the driver's reasons, four times a second and only while kernels ran.
    The highest clock seen in this run is taken as what it could be.
    """
    states = evidence.device_states
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
        f"it worked: {reason} held it back in {share:.0%} of the samples.".replace("%", " %"),
        Scale(_full_clock_factor(ratio), leaves=("busy.",)),
        measures=(
            Measure("clock while it worked", worst.clock_mhz or 0.0, "MHz"),
            Measure("highest clock seen", worst.best_mhz or 0.0, "MHz"),
            *((Measure("highest temperature", worst.celsius, "°C"),) if worst.celsius else ()),
        ),
        no_remedy=(
            "It is up to the operator of the machine: cooling, power limit, clocks that were set "
            "(nvidia-smi -q -d PERFORMANCE); "
            f"a step is {windows.ms(evidence.step_ns or 0)} meanwhile."
        ),
    )


def _full_clock_factor(ratio: float) -> Estimate:
    """Return the factor on kernels at full clock, from compute-bound to memory-bound."""
    lost_share = 1 - ratio
    return Estimate(1 - lost_share, 1 - 0.65 * lost_share, 1 - 0.3 * lost_share)


def _clock_ratio(state: DeviceState) -> float:
    return (state.clock_mhz or 0.0) / (state.best_mhz or 1.0)


def _is_held_back(state: DeviceState, reason: str, share: float) -> bool:
    limit = _MAX_POWER_RATIO if reason in _EXPECTED_REASONS else _MAX_CLOCK_RATIO
    return share >= _MIN_SAMPLE_SHARE and _clock_ratio(state) < limit
