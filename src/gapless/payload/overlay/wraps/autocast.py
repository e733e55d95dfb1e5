"""Wrap "autocast": a model's forward computes in a lower precision, and returns float32."""

from __future__ import annotations

import dataclasses
import functools
import sys
from typing import Any

from .. import forwards, models, traced
from ..patch import targets

TARGET = "torch.autocast"


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; options: "dtype" ("bfloat16"). Return what reverts it."""
    dtype = edit["options"].get("dtype") or "bfloat16"
    region = _Autocast(traced.TracedEdit(number, TARGET, "float32", dtype))
    undo = models.on_model(region.wrap)
    return functools.partial(targets.undo_all, [region.told.record_revert, undo])


class _Autocast:
    """The region that forwards are put into."""

    def __init__(self, traced_edit: traced.TracedEdit) -> None:
        self.told = traced_edit

    def wrap(self, module: Any) -> targets.Undo | None:
        """Put the region around a model's forward."""
        try:
            return forwards.put_around(module, functools.partial(self._forward, module))
        except TypeError as error:
            return self.told.not_now(str(error))

    def _forward(self, module: Any, forward: Any, args: tuple, kwargs: dict) -> Any:
        torch = sys.modules["torch"]
        dtype, parameter = getattr(torch, self.told.new), next(module.parameters(), None)
        kind = "cpu" if parameter is None else parameter.device.type
        if parameter is None or not self._applies(torch, kind, parameter):
            return forward(*args, **kwargs)
        with torch.autocast(kind, dtype):
            result = forward(*args, **kwargs)
        self.told.now()
        return _to_float32(torch, result, dtype)

    def _applies(self, torch: Any, kind: str, parameter: Any) -> bool:
        """Return whether there is something to lower here; write down why not."""
        why = None
        if torch.is_autocast_enabled(kind):
            why = "the forward is under autocast already"
        elif parameter.dtype is not torch.float32:
            why = f"its parameters are {parameter.dtype}, not float32"
        if why is not None:
            self.told.not_now(why)
        return why is None


def _to_float32(torch: Any, result: Any, dtype: Any) -> Any:
    """Return a result with tensors of this dtype as float32, in containers of the same kinds."""

    def widen_leaf(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.float() if leaf.dtype is dtype else leaf
        if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
            fields = {field.name: getattr(leaf, field.name) for field in dataclasses.fields(leaf)}
            changed = {name: _to_float32(torch, value, dtype) for name, value in fields.items()}
            if any(changed[name] is not value for name, value in fields.items()):
                return dataclasses.replace(leaf, **changed)
        return leaf

    return torch.utils._pytree.tree_map(widen_leaf, result)
