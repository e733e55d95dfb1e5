"""Activations that are kept instead of being computed again in the backward."""

from collections.abc import Sequence
from typing import Final

from gapless.model.change import Change
from gapless.model.estimate import Estimate
from gapless.model.work import Work
from gapless.roofline.roofline import NO_CHANGE, remove_launches, scale_changes

_RERUN_LEFT: Final = Estimate(0.0, 0.02, 0.15)  # what remains of a forward that ran again
_LAUNCH_SAVING: Final = Estimate(1.0, 0.98, 0.85)


def keep_activations(rows: Sequence[Work]) -> tuple[Change, ...]:
    """Return what leaving out a checkpoint's recomputation changes; nothing without one."""
    reruns = [row for row in rows if row.again]
    if not reruns:
        return ()
    scalings = scale_changes(rows, lambda work: _RERUN_LEFT if work.again else NO_CHANGE)
    has_launches = any(row.launches for row in reruns)
    return (*scalings, *(remove_launches(rows, reruns, _LAUNCH_SAVING) if has_launches else ()))
