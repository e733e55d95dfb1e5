"""SetArgument for DataLoaders: all edits of one are set together, so that they go together.

Without workers there is no prefetching, and what is set for workers is left out; a loader that
cannot have what is set (a batch size beside a batch sampler, or where the data set makes the
batches) is left as it is, unreported. Loaders that torch makes for itself are not the training's.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from typing import Any

from ..process_state import keep_fields
from ..stacks import locations
from .patch import edit_counters, targets, where
from .patch.signatures import Argument

LOADER = "torch.utils.data.DataLoader"
STATEFUL = "torchdata.stateful_dataloader.StatefulDataLoader"  # repeats torch's __init__
ONLY_WITH_WORKERS = ("prefetch_factor", "persistent_workers", "timeout", "multiprocessing_context")
_classes = keep_fields(layers=weakref.WeakKeyDictionary())  # by class of loaders


class _ArgumentEdit:
    """One edit of the arguments of loaders."""

    def __init__(self, number: int, edit: Any, function: Any) -> None:
        self.number, self.target = number, f"{edit['target']}.{edit['name']}"
        self.argument = Argument(function, edit["name"], edit["value"])
        self.meant = where.matcher(edit.get("where"))

    def record_effect(self, old: Any) -> None:
        """Record that a loader was made with it."""
        edit_counters.record_effect(self.number, self.target, old, self.argument.value)


class _Layer:
    """All edits of one class of loaders, and what its ``__init__`` may be given."""

    def __init__(self, kind: type) -> None:
        self.edits: list[_ArgumentEdit] = []
        self.function = kind.__init__
        self.workers = Argument(self.function, "num_workers")
        self.batches = Argument(self.function, "batch_sampler")
        self.only_with_workers = [self._default_argument(name) for name in ONLY_WITH_WORKERS]
        self.undo = targets.replace(kind, "__init__", self._make)

    def _default_argument(self, name: str) -> Argument:
        """Return an argument with its default as the value that it gets."""
        argument = Argument(self.function, name)
        argument.value = argument.default
        return argument

    def _make(self, original: Any, switch: targets.Switch) -> Any:
        @functools.wraps(original)
        def init_loader(*args: Any, **kwargs: Any) -> Any:
            if switch.on and not locations.callers_is_torch():
                args, kwargs = self.apply_edits(args, kwargs)
            return original(*args, **kwargs)

        return init_loader

    def apply_edits(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Return the arguments of a loader with all edits that are meant for it."""
        applied: list[tuple[_ArgumentEdit, Any]] = []
        batches = self.batches.get(args, kwargs)
        for edit in self.edits:
            old = edit.argument.get(args, kwargs)
            makes_none = batches is not None or old is None  # no batches of a size
            if edit.meant() and not (edit.argument.name == "batch_size" and makes_none):
                applied.append((edit, old))
                args, kwargs = edit.argument.put(args, kwargs)
        if applied and not self.workers.get(args, kwargs):
            for argument in self.only_with_workers:
                args, kwargs = argument.put(args, kwargs)
        for edit, old in applied:
            if edit.argument.get(args, kwargs) == edit.argument.value:
                edit.record_effect(old)
        return args, kwargs


def expand_target(target: str) -> tuple[str, ...]:
    """Return the targets that an edit of this target applies to: torchdata's loader, too."""
    return (target, STATEFUL) if target == LOADER else (target,)


def is_loader_class(kind: type) -> bool:
    """Return whether a class is one of loaders that is constructed as torch's is."""
    names = [f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__]
    if "__init__" not in vars(kind) or "torch.utils.data.dataloader.DataLoader" not in names:
        return False
    parameters = inspect.signature(kind.__init__).parameters
    return {"num_workers", "batch_sampler", *ONLY_WITH_WORKERS} <= set(parameters)


def apply(number: int, edit: Any, kind: type) -> targets.Undo:
    """Apply an edit on a class of loaders; return what reverts it."""
    argument_edit = _ArgumentEdit(number, edit, kind.__init__)
    layer = _classes.layers.get(kind)
    if layer is None:
        layer = _classes.layers[kind] = _Layer(kind)
    layer.edits.append(argument_edit)

    def undo() -> None:
        layer.edits.remove(argument_edit)
        if not layer.edits:
            layer.undo()
            _classes.layers.pop(kind, None)

    return undo
