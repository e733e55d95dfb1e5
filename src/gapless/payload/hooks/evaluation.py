"""Training and evaluation: when a model was set to train or to evaluate.

``Module.train`` calls itself for every module inside; only the outermost call is looked at, and
the others pay for one more Python call.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import compiling, declare, patching, recorder, tracebacks
from ..process_state import keep_fields
from ..stacks import locations
from . import calls, models

# A call is under way; one of another thread meanwhile would be missed, no harm.
_calls = keep_fields(is_busy=False)


@declare.hook("torch")
def _watch_torch(torch: Any) -> None:
    module = torch.nn.Module
    patching.replace(module, "train", _make)
    for name in ("to", "cuda"):
        patching.replace(module, name, calls.around("models", after=_note_move))
    if hasattr(torch, "compile"):  # since 2.0
        patching.replace(torch, "compile", calls.around("models", after=_note_compiling))


def _make(original: Any) -> Any:
    compiles = compiling.find_is_compiling()
    if compiles is None:
        recorder.report_unobserved("evaluation", "this torch does not say when it compiles")
        return original

    @functools.wraps(original)
    def train(*args: Any, **kwargs: Any) -> Any:
        if _calls.is_busy:
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                tracebacks.strip(error)
                raise
        if compiles():
            return original(*args, **kwargs)
        _calls.is_busy = True
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            _calls.is_busy = False
            tracebacks.strip(error)
            raise
        _calls.is_busy = False
        _note_mode(result)
        return result

    return train


@patching.guard("evaluation")
def _note_mode(module: Any) -> None:
    """Note the mode that an outermost call set; the location only of modules not met before."""
    now = recorder.now()
    if not models.is_registered(module):
        models.register_module(module, locations.users_line(1))
    models.note_mode(module, bool(module.training), now)


def _note_move(state: Any, args: tuple[Any, ...], result: Any, raised: Any) -> None:  # noqa: ARG001 - the form of `around`
    if raised is None and args and not models.is_registered(args[0]):
        models.register_module(args[0], locations.users_line(1))


def _note_compiling(state: Any, args: tuple[Any, ...], result: Any, raised: Any) -> None:  # noqa: ARG001 - the form of `around`
    """Note that a module is compiled that is met by itself, not in the shell made of it here."""
    if raised is None and models.is_registered(result):
        models.register_module(result, None)
