"""non-blocking: copies of pinned CPU tensors to a CUDA device do not make the CPU wait.

``Tensor.to`` and ``Tensor.cuda`` get ``non_blocking=True`` where the call says nothing of it.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from ... import compiling, imports, recorder
from ..patch import edit_counters, targets, where

TARGET = "torch.Tensor.to"
_KEEPS_CLASSES = "torchvision.tv_tensors._torch_function_helpers"


class _NonBlockingEdit:
    """The edit, and what it has to do with."""

    def __init__(self, number: int, edit: Any) -> None:
        self.number = number
        self.from_there = where.matcher(edit.get("where"))

    def wants(self, source: Any, args: Any, kwargs: Any) -> bool:
        """Return whether a copy goes from pinned memory to a CUDA device, and says no more."""
        if "non_blocking" in kwargs or any(isinstance(argument, bool) for argument in args):
            return False
        if not source.is_cpu or not self.from_there():
            return False
        if source.is_pinned():
            edit_counters.record_effect(self.number, TARGET, False, True)  # noqa: FBT003
            return True
        recorder.report_unobserved("non-blocking copy", "the source is not pinned")
        return False


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it."""
    copy_edit = _NonBlockingEdit(number, edit)
    edit_counters.register_edit(number, TARGET)
    undos = [
        targets.on_target(number, TARGET, _make_replace(copy_edit, _to_cuda)),
        targets.on_target(number, "torch.Tensor.cuda", _make_replace(copy_edit, _always)),
    ]
    return functools.partial(targets.undo_all, undos)


def _make_replace(edit: _NonBlockingEdit, goes: Any) -> Any:
    def replace(owner: Any, name: str) -> targets.Undo:
        method = getattr(owner, name)
        imports.when_imported(_KEEPS_CLASSES, functools.partial(_register_method, method))
        return targets.replace(owner, name, functools.partial(_make, edit, goes))

    return replace


def _register_method(method: Any, module: Any) -> None:
    """Let torchvision know the method, by which its tensors keep their class, beside ours."""
    module._FORCE_TORCHFUNCTION_SUBCLASS.add(method)


def _make(edit: _NonBlockingEdit, goes: Any, original: Any, switch: targets.Switch) -> Any:
    tracing = compiling.get_is_compiling()
    plain = _classes()

    @functools.wraps(original)
    def copy(self: Any, *args: Any, **kwargs: Any) -> Any:
        if tracing() or not switch.on or type(self) not in plain:
            return original(self, *args, **kwargs)
        if goes(args, kwargs) and edit.wants(self, args, kwargs):
            kwargs = {**kwargs, "non_blocking": True}
        return original(self, *args, **kwargs)

    return copy


def _classes() -> tuple[Any, ...]:
    torch = sys.modules["torch"]
    return (torch.Tensor, torch.nn.Parameter)


def _to_cuda(args: Any, kwargs: Any) -> bool:
    """Return whether the arguments of ``Tensor.to`` name a CUDA device, or a tensor on one."""
    to = args[0] if args else kwargs.get("device", kwargs.get("other"))
    if isinstance(to, str):
        return to.startswith("cuda")
    kind = getattr(to, "type", None)  # of a device; a tensor's is a method
    return kind == "cuda" or getattr(to, "is_cuda", False) is True or type(to) is int


def _always(_args: Any, _kwargs: Any) -> bool:
    return True
