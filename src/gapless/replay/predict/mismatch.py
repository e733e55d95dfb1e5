"""Explanations of a window that misses plain steps: what tracing cost, how fast the host was.

A mismatch is an uncertainty, not a reason to refuse (hosts drift by a quarter within a run).
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

MIN_ALPHA, MAX_ALPHA = 500.0, 2_500.0  # ns an event: the usual range
WIDE_ERROR: Final = 0.05  # of the step: a window that is farther off makes intervals wider
FASTEST_PACE, SLOWEST_PACE = 0.35, 2.9  # times: no host is farther from its usual pace
# of the step that nothing explains: with more of it a window is refused
MAX_LEFT_SHARE: Final = 0.25


class Alpha(Struct, frozen=True):
    """What tracing cost a host event, in ns: likely, and within which bounds.

    ``only_bounds``: only bounds are known, since the step hardly depends on it. ``error``: by what
    share the step, replayed as usual, misses the plain one; ``device``: what tracing cost an
    activity (subtracted by ``alpha.ease_devices``). ``refused``: why no gain can be predicted.
    ``wide``: intervals have to be wider (``uncertainty.widen_by_mismatch``). ``pace``: how many
    times slower the host was in the window. ``alternative``: another explanation of the same
    window.
    """

    low: float
    mid: float
    high: float
    only_bounds: bool
    error: float
    wide: bool = False
    refused: str | None = None
    notes: tuple[str, ...] = ()
    device: float = 0.0
    pace: float = 1.0
    alternative: "Alpha | None" = None


def judge_fit(alpha: Alpha, chance: float) -> Alpha:
    """Annotate how far off a fit is, and refuse it where no host and no device is so far off."""
    is_possible = abs(alpha.error) <= MAX_LEFT_SHARE
    return annotate_fit(alpha, chance) if is_possible else _refuse_fit(alpha)


def annotate_fit(alpha: Alpha, chance: float) -> Alpha:
    """Annotate an explanation with what it rests on; an error within chance needs no note."""
    notes = list[str]()
    is_far = abs(alpha.error) > max(WIDE_ERROR, chance)
    if is_far and alpha.pace == 1:
        notes.append(f"{_describe_error(alpha.error)}; intervals are wider for that")
    elif is_far:
        notes.append(f"{_describe_error(alpha.error)}: {_describe_pace(alpha.pace)}")
    if not alpha.only_bounds and alpha.mid < MIN_ALPHA:
        usual = f"{MIN_ALPHA / 1000:.1f} to {MAX_ALPHA / 1000:.1f} µs is usual"
        notes.append(f"tracing cost {alpha.mid / 1000:.1f} µs an event; {usual}")
    if alpha.device:
        notes.append(f"tracing cost devices {alpha.device / 1000:.1f} µs an activity")
    return replace(alpha, wide=abs(alpha.error) > WIDE_ERROR, notes=tuple(notes))


def merge_explanations(primary: Alpha, secondary: Alpha, chance: float) -> Alpha:
    """Join both explanations of a window, with common notes."""
    is_far = abs(primary.error) > max(WIDE_ERROR, chance)
    traced = f"tracing cost {primary.mid / 1000:.1f} µs an event"
    cause = traced if primary.error > 0 else "all was faster"
    notes = (
        (
            f"{_describe_error(primary.error)}: {cause}, or {_describe_pace(secondary.pace)}; "
            "both are taken into account"
        ),
    )
    if primary.device:
        notes += (f"tracing cost devices {primary.device / 1000:.1f} µs an activity",)
    kept_notes = notes if is_far else ()
    is_wide = abs(primary.error) > WIDE_ERROR  # both may share a fault
    return replace(
        primary,
        wide=is_wide,
        notes=kept_notes,
        alternative=replace(secondary, wide=is_wide, notes=kept_notes),
    )


def _refuse_fit(alpha: Alpha) -> Alpha:
    error = _describe_error(alpha.error)
    reason = f"{error}, which neither tracing nor a slower or faster host explains"
    return replace(alpha, refused=reason, alternative=None)


def _describe_error(error: float) -> str:
    return f"the window's step is {error:+.0%} off un-profiled steps"


def _describe_pace(pace: float) -> str:
    if pace >= 1:
        return f"the host was {pace:.1f} times as slow while it was traced"
    return f"the host was {1 / pace:.1f} times as fast while it was traced"
