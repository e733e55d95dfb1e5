"""Mark backward passes, while no optimizer of torch's ends the steps.

An optimizer by hand, one of the user's own, ``torch.autograd.grad``, and what ``torch.func`` makes
of it: all go through two functions. Once an optimizer's calls are the steps, a pass is one number
more, and no mark.
"""

from __future__ import annotations

from typing import Any

from ... import wire
from .. import declare, patching, recorder, stepping
from ..process_state import keep
from . import calls


class _Passes:
    """Whether a pass is under way; one inside it, or of another thread, is no step."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Know of none."""
        self.is_busy = False


_passes = keep(_Passes())


@declare.hook("torch")
def _watch_torch(torch: Any) -> None:
    make = calls.around_unnested(_passes, stepping.wants_passes, _note_pass)
    for name in ("backward", "grad"):
        patching.replace(torch.autograd, name, make)


@patching.guard("backward passes")
def _note_pass(_args: tuple, start: int, end: int) -> None:
    if not calls.is_ours() and not recorder.is_worker():
        site = calls.site()
        recorder.mark(wire.BACKWARD, start, end, site)
        stepping.note_backward(site, start, end)
