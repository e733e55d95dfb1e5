"""Synchronising calls that Python can see, as marks at the user's line.

Methods of tensors (``item``, ``cpu``) synchronise too, but are never replaced: compilers look at
them. Windows show those.
"""

from __future__ import annotations

from typing import Any

from ... import wire
from .. import imports, patching
from . import calls

_FUNCTIONS = ("torch.cuda", "torch.mps", "torch.xpu", "torch.accelerator")
_CLASSES = ("torch.cuda.streams", "torch.xpu.streams", "torch.mps.event")


def install() -> None:
    """Watch for the modules whose functions wait for a device."""
    for module in _FUNCTIONS:
        imports.when_imported(module, _functions)
    for module in _CLASSES:
        imports.when_imported(module, _methods)


def _functions(module: Any) -> None:
    calls.replace_all(module, ("synchronize",), _make())


def _methods(module: Any) -> None:
    for name in ("Event", "Stream"):
        owner = getattr(module, name, None)
        if isinstance(owner, type) and "synchronize" in vars(owner):
            patching.replace(owner, "synchronize", _make())


def _make() -> Any:
    return calls.outermost(wire.SYNC, "syncs")
