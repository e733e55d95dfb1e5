"""What a window that misses plain steps says of itself: what tracing cost, how the host was.

A mismatch is an uncertainty, and no reason to be silent (hosts drift by a quarter within a run).
"""

from dataclasses import dataclass, replace
from typing import Final

LEAST, MOST = 500.0, 2_500.0  # ns an event: what is usual at all
OFF: Final = 0.05  # of the step: a window that is farther off makes intervals wider
FASTER, SLOWER = 0.35, 2.9  # times: a host that is farther from its usual pace is another one
LEFT: Final = 0.25  # of the step that nothing explains: with more of it a window says nothing


@dataclass(frozen=True)
class Alpha:
    """What tracing cost a host event, in ns: likely, and within which bounds.

    ``bound``: only bounds are known, for the step hardly depends on it. ``error``: by what share
    of it the step that is replayed as usual misses the plain one; ``device``: what tracing cost an
    activity (it is taken off by ``eased``). ``refused``: why no gain can be predicted.
    ``wide``: intervals have to be wider (``uncertainty.wider``). ``pace``: the host was so many
    times slower in the window. ``other``: another explanation of the same window.
    """

    low: float
    mid: float
    high: float
    bound: bool
    error: float
    wide: bool = False
    refused: str | None = None
    notes: tuple[str, ...] = ()
    device: float = 0.0
    pace: float = 1.0
    other: "Alpha | None" = None


def judged(fitted: Alpha, chance: float = 0.0, *, hosts: bool = False) -> Alpha:
    """Say how far a fit is off, and refuse it where no host and no device is so far off.

    ``hosts``: what is off is the pace of hosts, which leaves shares of a step as they are.
    """
    fits = FASTER <= 1 + fitted.error <= SLOWER if hosts else abs(fitted.error) <= LEFT
    return told(fitted, chance) if fits else _refused(fitted)


def told(fitted: Alpha, chance: float) -> Alpha:
    """Say of an explanation what it rests on; what steps are off by chance is nothing to say."""
    notes = list[str]()
    far = abs(fitted.error) > max(OFF, chance)
    if far and fitted.pace == 1:
        notes.append(f"{_off(fitted.error)}; intervals are wider for that")
    elif far:
        notes.append(f"{_off(fitted.error)}: {_paced(fitted.pace)}")
    if not fitted.bound and fitted.mid < LEAST:
        usual = f"{LEAST / 1000:.1f} to {MOST / 1000:.1f} µs is usual"
        notes.append(f"tracing cost {fitted.mid / 1000:.1f} µs an event; {usual}")
    if fitted.device:
        notes.append(f"tracing cost devices {fitted.device / 1000:.1f} µs an activity")
    return replace(fitted, wide=abs(fitted.error) > OFF, notes=tuple(notes))


def of_two(first: Alpha, second: Alpha, chance: float) -> Alpha:
    """Join both explanations of a window: what is said of them is said once."""
    far = abs(first.error) > max(OFF, chance)
    traced = f"tracing cost {first.mid / 1000:.1f} µs an event"
    one = traced if first.error > 0 else "all was faster"
    notes = (f"{_off(first.error)}: {one}, or {_paced(second.pace)}; both are reckoned with",)
    if first.device:
        notes += (f"tracing cost devices {first.device / 1000:.1f} µs an activity",)
    told = notes if far else ()
    wide = abs(first.error) > OFF  # both may share a fault
    return replace(first, wide=wide, notes=told, other=replace(second, wide=wide, notes=told))


def _refused(fitted: Alpha) -> Alpha:
    why = f"{_off(fitted.error)}, which neither tracing nor a slower or faster host explains"
    return replace(fitted, refused=why, other=None)


def _off(error: float) -> str:
    return f"the window's step is {error:+.0%} off those that no profiler saw"


def _paced(pace: float) -> str:
    if pace >= 1:
        return f"the host was {pace:.1f} times as slow while it was traced"
    return f"the host was {1 / pace:.1f} times as fast while it was traced"
