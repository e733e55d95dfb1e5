"""Mark the ends of steps that the user's own ``gapless.step()`` reports."""

from __future__ import annotations

from .. import wire
from . import patching, recorder, stepping
from .hooks import calls


@patching.guard("gapless.step")
def step() -> None:
    """Mark that a step ends here, and do what waits for that."""
    if not recorder.is_worker():
        site, now = calls.site(), recorder.now()
        recorder.mark(wire.USER_STEP, now, now, site)
        stepping.note_user_step(site, now)
