"""Activations that are kept instead of being computed again in the backward."""

from collections.abc import Sequence
from typing import Final

from gapless.model.change import Change
from gapless.model.interval import Interval
from gapless.model.work import Work
from gapless.replay.roofline import SAME, fewer_launches, scales

_GONE: Final = Interval(0.0, 0.02, 0.15)  # what stays of a forward that ran once more
_LAUNCHES_GONE: Final = Interval(1.0, 0.98, 0.85)


def kept(rows: Sequence[Work]) -> tuple[Change, ...]:
    """Give what leaving out all that a checkpoint ran again changes; nothing where none was."""
    again = [one for one in rows if one.again]
    if not again:
        return ()
    gone = scales(rows, lambda work: _GONE if work.again else SAME)
    launched = any(one.launches for one in again)
    return (*gone, *(fewer_launches(rows, again, _LAUNCHES_GONE) if launched else ()))
