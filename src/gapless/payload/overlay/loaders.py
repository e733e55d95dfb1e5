"""What edits must know of DataLoaders: arguments that go together, and which loaders are meant."""

from __future__ import annotations

from typing import Any

from .. import places

LOADER = "torch.utils.data.DataLoader"
STATEFUL = "torchdata.stateful_dataloader.StatefulDataLoader"  # repeats torch's __init__
ONLY_WITH_WORKERS = ("prefetch_factor", "persistent_workers", "timeout", "multiprocessing_context")


def also(target: str) -> tuple[str, ...]:
    """Give the targets that an edit of this target is laid on: torchdata's loader is one, too."""
    return (target, STATEFUL) if target == LOADER else (target,)


def fitting(kind: type) -> Any:
    """Give what sets an argument of this class so that the others go with it; None: no need."""
    names = [f"{one.__module__}.{one.__qualname__}" for one in kind.__mro__]
    return _fit if "torch.utils.data.dataloader.DataLoader" in names else None


def _fit(argument: Any, args: Any, kwargs: Any) -> Any:
    """Give the arguments of a loader with one set; None: torch makes this loader for itself."""
    if places.callers_is_torch(1):
        return None
    args, kwargs = argument.put(args, kwargs)
    if argument.name == "num_workers" and not argument.value:
        kwargs = {name: one for name, one in kwargs.items() if name not in ONLY_WITH_WORKERS}
    return args, kwargs
