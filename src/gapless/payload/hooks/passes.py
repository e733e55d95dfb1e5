"""Mark backward passes, while no optimizer of torch's ends the steps.

An optimizer by hand, one of the user's own, ``torch.autograd.grad``, and what ``torch.func`` makes
of it: all go through two functions. Once an optimizer's calls are the steps, a pass is one number
more, and no mark.
"""

from __future__ import annotations

from typing import Any

from ... import wire
from .. import imports, patching, recorder, stepping
from . import calls

_state = {"busy": False}  # a pass is under way; one inside it, or of another thread, is no step


def install() -> None:
    """Wait for torch, whole."""
    imports.when_imported("torch", _torch)
    recorder.on_child(_forget)
    _forget()


def _forget() -> None:
    _state["busy"] = False


def _torch(torch: Any) -> None:
    make = calls.unnested(_state, stepping.wants_passes, _passed)
    for name in ("backward", "grad"):
        patching.replace(torch.autograd, name, make)


@patching.guarded("backward passes")
def _passed(_args: tuple, start: int, end: int) -> None:
    if not calls.ours() and not recorder.is_worker():
        site = calls.site()
        recorder.mark(wire.BACKWARD, start, end, site)
        stepping.passed_back(site, start, end)
