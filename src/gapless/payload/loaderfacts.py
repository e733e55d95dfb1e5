"""Tell what a DataLoader is set to, without running code of the user's."""

from __future__ import annotations

import sys
from typing import Any


def values(loader: Any) -> dict[str, Any]:
    """Give the values of a FACT of a loader."""
    dataset = loader.dataset
    found = {
        name: getattr(loader, name, None)
        for name in (
            "batch_size",
            "num_workers",
            "prefetch_factor",
            "pin_memory",
            "persistent_workers",
            "in_order",
            "drop_last",
            "timeout",
        )
    }
    if found["batch_size"] is None and loader.batch_sampler is not None:
        found["batch_size"] = _plain(vars(loader.batch_sampler).get("batch_size"))
    found.update(
        shuffle=type(loader.sampler).__name__ == "RandomSampler",
        dataset=named(type(dataset)),
        iterable=loader._dataset_kind != 0,
        length=_length(dataset),
        collate=named(loader.collate_fn),
        sampler=named(type(loader.sampler)),
        start_method=_start_method(loader),
    )
    return found


def named(thing: Any) -> str:
    """Give the qualified name of a class or function."""
    if not hasattr(thing, "__qualname__"):
        thing = type(thing)
    return f"{thing.__module__}.{thing.__qualname__}"


def _plain(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _length(dataset: Any) -> int | None:
    """Give the length, if asking for it runs nothing but attribute look-ups; else None."""
    if isinstance(dataset, (list, tuple, range)):
        return len(dataset)
    code = getattr(getattr(type(dataset), "__len__", None), "__code__", None)
    if code is None or not hasattr(dataset, "__dict__"):
        return None
    attributes = [name for name in code.co_names if name != "len"]
    simple = all(_simple(vars(dataset).get(name)) for name in attributes)
    if not simple or any(hasattr(one, "co_code") for one in code.co_consts):
        return None
    return _plain(type(dataset).__len__(dataset))


def _simple(value: Any) -> bool:
    module = type(value).__module__
    return module == "numpy" or (module == "builtins" and not callable(value))


def _start_method(loader: Any) -> str | None:
    if not loader.num_workers:
        return None
    context = loader.multiprocessing_context or sys.modules.get("multiprocessing")
    find = getattr(context, "get_start_method", None)
    method = None if find is None else find(allow_none=True)  # without it, asking would fix it
    if method is None:
        method = "forkserver" if sys.version_info >= (3, 14) else "fork"
    return method
