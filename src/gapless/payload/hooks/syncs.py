"""Synchronising calls that Python can see, as marks at the user's line.

Methods of tensors (``item``, ``cpu``) synchronise too, but are never replaced: compilers look at
them. Windows show those.
"""

from __future__ import annotations

from typing import Any

from ... import wire
from .. import declare, imports, patching
from . import calls

_MODULES = ("cuda", "mps", "xpu", "accelerator")
_STREAMS = ("torch.cuda.streams", "torch.xpu.streams", "torch.mps.event")


@declare.hook("torch")  # whole: what its compiler must not see asks whether it is compiling
def _watch_torch(torch: Any) -> None:
    for name in _MODULES:
        module = getattr(torch, name, None)
        if module is not None:
            calls.replace_all(module, ("synchronize",), _make())
    for name in _STREAMS:
        imports.when_imported(name, _watch_methods)


def _watch_methods(module: Any) -> None:
    for name in ("Event", "Stream"):
        owner = getattr(module, name, None)
        if isinstance(owner, type) and "synchronize" in vars(owner):
            patching.replace(owner, "synchronize", _make())


def _make() -> Any:
    return calls.around_outermost(wire.SYNC, "syncs")
