"""Wrap "autocast": a model's forward computes in a lower precision, and gives float32 back."""

from __future__ import annotations

import dataclasses
import functools
import sys
from typing import Any

from .. import forwards, models, targets, traced

TARGET = "torch.autocast"


def lay(number: int, edit: Any) -> targets.Undo:
    """Lay an edit; options: "dtype" ("bfloat16"). Give what takes it off."""
    dtype = edit["options"].get("dtype") or "bfloat16"
    part = _Autocast(traced.Told(number, TARGET, "float32", dtype))
    undo = models.on_model(part.wrap)
    return functools.partial(targets.undo_all, [part.told.lifted, undo])


class _Autocast:
    """The region that forwards are put into."""

    def __init__(self, told: traced.Told) -> None:
        self.told = told

    def wrap(self, module: Any) -> targets.Undo | None:
        """Put the region around a model's forward."""
        try:
            return forwards.put_around(module, functools.partial(self._forward, module))
        except TypeError as error:
            return self.told.not_now(str(error))

    def _forward(self, module: Any, forward: Any, args: tuple, kwargs: dict) -> Any:
        torch = sys.modules["torch"]
        dtype, first = getattr(torch, self.told.new), next(module.parameters(), None)
        kind = "cpu" if first is None else first.device.type
        if first is None or not self._applies(torch, kind, first):
            return forward(*args, **kwargs)
        with torch.autocast(kind, dtype):
            result = forward(*args, **kwargs)
        self.told.now()
        return _widened(torch, result, dtype)

    def _applies(self, torch: Any, kind: str, first: Any) -> bool:
        """Tell whether there is something to lower here; write down why not."""
        why = None
        if torch.is_autocast_enabled(kind):
            why = "the forward is under autocast already"
        elif first.dtype is not torch.float32:
            why = f"its parameters are {first.dtype}, not float32"
        if why is not None:
            self.told.not_now(why)
        return why is None


def _widened(torch: Any, result: Any, dtype: Any) -> Any:
    """Give a result with its tensors of this dtype as float32, in containers of the same kinds."""

    def widen(one: Any) -> Any:
        if isinstance(one, torch.Tensor):
            return one.float() if one.dtype is dtype else one
        if dataclasses.is_dataclass(one) and not isinstance(one, type):
            fields = {field.name: getattr(one, field.name) for field in dataclasses.fields(one)}
            changed = {name: _widened(torch, value, dtype) for name, value in fields.items()}
            if any(changed[name] is not value for name, value in fields.items()):
                return dataclasses.replace(one, **changed)
        return one

    return torch.utils._pytree.tree_map(widen, result)
