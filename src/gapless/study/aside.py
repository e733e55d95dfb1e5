"""What the parts of a step do not tell: what was seen but once, and steps no window holds."""

from collections.abc import Mapping
from typing import Final

from gapless.catalogue import occasional, windowed
from gapless.catalogue.effects.occasions import CHECKPOINT, EVALUATION, LOGGING, PROFILING
from gapless.catalogue.loading import percent
from gapless.model.seen import Seen
from gapless.study.doing import stood

_LEAST: Final = 0.05  # of the time: what takes less is not mentioned
_OCCASIONS: Final[Mapping[str, str]] = {
    CHECKPOINT: "a checkpoint",
    LOGGING: "a call of a logger",
    EVALUATION: "an evaluation",
    PROFILING: "a trace of the training's own profiler",
}


def seldom(seen: Seen) -> dict[str, int]:
    """Give what a recording holds of lumps whose period is not known: its share is none of steps.

    What is left of the time must be something.
    """
    found = {
        leaf: seen.account.leaves.get(leaf, 0)
        for leaf in _OCCASIONS
        if (known := occasional.sighting(seen, leaf)) is not None and known.period is None
    }
    return found if sum(found.values()) < seen.account.wall_ns else {}


def left_aside(seen: Seen, aside: Mapping[str, int]) -> str:
    """Say what was left aside, if it is much."""
    most = max(aside, key=lambda leaf: aside[leaf], default=None)
    known = None if most is None else occasional.sighting(seen, most)
    if most is None or known is None or aside[most] < _LEAST * seen.account.wall_ns:
        return ""
    each = f"{known.each_ns / 1e9:.2f} s"
    often = f"once, {each}" if known.count == 1 else f"twice, {each} each"
    share = percent(aside[most] / seen.account.wall_ns)
    return f"; left aside: {_OCCASIONS[most]} seen {often}, {share} of the recorded steps' time"


def as_a_whole(seen: Seen) -> str:
    """Say of what no window shows which steps it is, and where samples of the thread stood."""
    recorded = seen.study.recorded
    unlike = None if recorded is None or recorded.account is None else recorded.account.unlike
    words = "is known as a whole only: no window shows what happens within it"
    if unlike is not None:
        which = f"{percent(unlike.steps)} of all, {windowed.ms(unlike.mean_ns)} each"
        words = f"is in steps of a kind that no window holds ({which})"
    return f"{words}{stood(seen)}"
