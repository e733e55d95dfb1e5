"""Training and evaluation: when a model was told to train or to evaluate.

``Module.train`` calls itself for every module inside; only the outermost call is looked at, and
the others pay for one more Python call.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import compiling, imports, patching, places, recorder, tracebacks
from . import calls, models

_busy = False  # a call is under way; one of another thread meanwhile would be missed, no harm


def install() -> None:
    """Watch for torch's modules."""
    imports.when_imported("torch", _torch)


def _torch(torch: Any) -> None:
    module = torch.nn.Module
    patching.replace(module, "train", _make)
    for name in ("to", "cuda"):
        patching.replace(module, name, calls.around("models", after=_moved))


def _make(original: Any) -> Any:
    compiles = compiling.own_asker()
    if compiles is None:
        recorder.unseen("evaluation", "this torch does not say when it compiles")
        return original

    @functools.wraps(original)
    def train(*args: Any, **kwargs: Any) -> Any:
        global _busy
        if _busy:
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                tracebacks.strip(error)
                raise
        if compiles():
            return original(*args, **kwargs)
        _busy = True
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            _busy = False
            tracebacks.strip(error)
            raise
        _busy = False
        _told(result)
        return result

    return calls.transparent(train)


@patching.guarded("evaluation")
def _told(module: Any) -> None:
    """Note the mode that an outermost call set; the place only of modules not met before."""
    now = recorder.now()
    if not models.met(module):
        models.meet(module, places.users_line(1))
    models.told(module, bool(module.training), now)


def _moved(state: Any, args: tuple[Any, ...], result: Any, raised: Any) -> None:  # noqa: ARG001 - the form of `around`
    if raised is None and args and not models.met(args[0]):
        models.meet(args[0], places.users_line(1))
