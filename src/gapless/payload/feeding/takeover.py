"""Take a training over where its loader is first gone through, measure, and leave.

The loader is the one that the recorded run was fed by: made at one of the plan's lines. Where none
is known, or the source has changed, it is the first that is gone through with gradients on and
draws its order; else the last one before the first step. Of several ranks the first measures, and
the others wait for it. Nothing of the user's runs afterwards: the process leaves as any trial's arm
does.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Any

from ... import wire
from .. import identities, imports, patching, recorder
from ..loading import loader_facts
from ..log import process
from ..process_state import keep_fields
from ..trial import first_rank, stop
from .result import Result

if TYPE_CHECKING:
    from typing import NoReturn

_STEPS_ALONE = 20  # steps without a loader: none feeds this training
# The plan, in which process it was made, and a loader that may be the one.
_state = keep_fields(plan={}, pid=-1, is_taken=False, candidate=None, steps=0)


def begin(plan: dict[str, Any]) -> None:
    """Wait for the loader: {"lines": [[file, line], …], "samples", "seconds"}."""
    _state.plan, _state.pid = plan, os.getpid()
    _state.is_taken, _state.candidate, _state.steps = False, None, 0
    for name, loader in (
        ("torch.utils.data.dataloader", "DataLoader"),
        ("torchdata.stateful_dataloader.stateful_dataloader", "StatefulDataLoader"),
    ):
        imports.when_imported(name, functools.partial(_watch, loader))
    recorder.on_edge(_edge)


def _watch(name: str, module: Any) -> None:
    patching.replace(getattr(module, name), "__iter__", _wrap_iter)


def _wrap_iter(original: Any) -> Any:
    @functools.wraps(original)
    def iterate(loader: Any) -> Any:
        if _is_open() and _is_wanted(loader):
            _take_over(loader)
        return original(loader)

    return iterate


def _is_open() -> bool:
    return not _state.is_taken and _state.pid == os.getpid() and process.worker() is None


def _is_wanted(loader: Any) -> bool:
    """Return whether this is surely the loader; where it may be, note it."""
    location = _location(loader)
    if location in [tuple(line) for line in _state.plan["lines"]]:
        return True
    if not sys.modules["torch"].is_grad_enabled():
        return False
    _state.candidate = loader
    return not _state.plan["lines"] and loader_facts.values(loader)["shuffle"]


def _location(loader: Any) -> tuple[Any, Any]:
    """Return the file and line at which the training made the loader, as it is recorded."""
    number = recorder.identify("loader", loader)
    if number is None:
        return None, None
    fact = identities.description("loader", number)
    return fact["file"], fact["line"]


def _edge(_step: int, _start: int, _end: int) -> None:
    """Take over after the first step, where no loader was taken for that of the training."""
    if not _is_open():
        return
    _state.steps += 1
    if _state.candidate is not None:
        stop.close_workers()
        _take_over(_state.candidate)
    if _state.steps >= _STEPS_ALONE:
        result = Result(os.environ.get(wire.SPOOL, ""))
        result.fail("no-loader", f"{_STEPS_ALONE} steps were taken and no DataLoader gone through")
        stop.leave_at_once()


def _take_over(loader: Any) -> NoReturn:
    """Measure, if this is the first rank, and leave."""
    _state.is_taken = True
    result = Result(os.environ.get(wire.SPOOL, ""))
    first_rank.act_and_leave(result, functools.partial(_measure, loader, result))


def _measure(loader: Any, result: Result) -> None:
    from . import session

    file, line = _location(loader)
    result.describe(file=file, line=line)
    session.measure(loader, _state.plan, result)
