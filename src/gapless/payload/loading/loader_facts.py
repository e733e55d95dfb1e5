"""What a DataLoader is set to, found without running code of the user's."""

from __future__ import annotations

import dis
import sys
from typing import Any

# What ``return len(self.paths) // 2`` is made of in some version of Python: it changes nothing.
_PURE_OPCODES = {
    "BINARY_ADD",
    "BINARY_FLOOR_DIVIDE",
    "BINARY_MULTIPLY",
    "BINARY_OP",
    "BINARY_SUBSCR",
    "BINARY_SUBTRACT",
    "CACHE",
    "CALL",
    "CALL_FUNCTION",
    "CALL_METHOD",
    "COPY_FREE_VARS",
    "EXTENDED_ARG",
    "LOAD_ATTR",
    "LOAD_CONST",
    "LOAD_FAST",
    "LOAD_FAST_BORROW",
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW",
    "LOAD_FAST_LOAD_FAST",
    "LOAD_GLOBAL",
    "LOAD_METHOD",
    "LOAD_SMALL_INT",
    "NOP",
    "PRECALL",
    "PUSH_NULL",
    "RESUME",
    "RETURN_CONST",
    "RETURN_VALUE",
}
_RANDOM_SAMPLERS = {"RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler"}
_SIMPLE = frozenset((int, list, tuple, dict, str, bytes, range, set, frozenset))


_SETTINGS = (
    "batch_size",
    "num_workers",
    "prefetch_factor",
    "pin_memory",
    "persistent_workers",
    "in_order",
    "drop_last",
    "timeout",
)


def values(loader: Any) -> dict[str, Any]:
    """Return the values of a FACT of a loader."""
    dataset = loader.dataset
    facts = {name: getattr(loader, name, None) for name in _SETTINGS}
    if facts["batch_size"] is None and loader.batch_sampler is not None:
        facts["batch_size"] = _plain(own_attributes(loader.batch_sampler).get("batch_size"))
    facts.update(
        shuffle=_shuffles(loader),
        dataset=name_dataset(dataset),
        iterable=loader._dataset_kind != 0,
        length=find_length(dataset),
        collate=qualified_name(loader.collate_fn),
        sampler=qualified_name(type(loader.sampler)),
        start_method=_start_method(loader),
    )
    return facts


def of_stand_in(loader: Any) -> dict[str, Any]:
    """Return the same values of what torch's iterators were given in place of a DataLoader.

    It has what they ask for, and not all that a DataLoader has.
    """
    facts = {name: _setting(loader, name) for name in _SETTINGS}
    facts.update(
        dataset=name_dataset(loader.dataset),
        iterable=loader._dataset_kind != 0,
        length=find_length(loader.dataset),
        collate=qualified_name(loader.collate_fn),
        start_method=_start_method(loader),
        stands_in=qualified_name(type(loader)),
    )
    return facts


def _setting(loader: Any, name: str) -> Any:
    """Return a plain value that a thing or its class holds; no property is asked."""
    value = own_attributes(loader).get(name)
    for kind in type(loader).__mro__ if value is None else ():
        value = vars(kind).get(name, value)
        if value is not None:
            break
    return value if isinstance(value, (int, float, str)) else None


def _shuffles(loader: Any) -> bool:
    """Return whether the order is drawn: by a sampler of torch's, or one set to shuffle."""
    batches = loader.batch_sampler
    for sampler in (loader.sampler, own_attributes(batches).get("sampler"), batches):
        if _RANDOM_SAMPLERS & {kind.__name__ for kind in type(sampler).__mro__}:
            return True
        if own_attributes(sampler).get("shuffle") is True:  # DistributedSampler
            return True
    return False


def own_attributes(holder: Any) -> dict[str, Any]:
    """Return a thing's own attributes, without running its code.

    A list of batches may be a sampler, and has none.
    """
    has_any = bool(type(holder).__dictoffset__)
    attributes = object.__getattribute__(holder, "__dict__") if has_any else None
    return attributes if type(attributes) is dict else {}


def qualified_name(definition: Any) -> str:
    """Return the qualified name of a class or function."""
    if not hasattr(definition, "__qualname__"):
        definition = type(definition)
    return f"{definition.__module__}.{definition.__qualname__}"


def name_dataset(dataset: Any) -> str:
    """Return the qualified name of a data set's class; of a part of another, that one's behind."""
    name = qualified_name(type(dataset))
    is_part = name == "torch.utils.data.dataset.Subset"
    inner = own_attributes(dataset).get("dataset") if is_part else None
    return name if inner is None else f"Subset of {name_dataset(inner)}"


def _plain(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def find_length(dataset: Any) -> int | None:
    """Return the length, if asking for it runs nothing but attribute look-ups; else None."""
    if isinstance(dataset, (list, tuple, range)):
        return len(dataset)
    code = getattr(getattr(type(dataset), "__len__", None), "__code__", None)
    attributes = own_attributes(dataset)
    if code is None or not _PURE_OPCODES.issuperset(_operations(code)):
        return None
    pure_names = (
        ("len", "size") if type(dataset).__module__ == "torch.utils.data.dataset" else ("len",)
    )
    if not all(name in pure_names or _simple(attributes.get(name)) for name in code.co_names):
        return None
    return _plain(type(dataset).__len__(dataset))


def _operations(code: Any) -> set[str]:
    return {dis.opname[operation] for operation in code.co_code[::2]}


def _simple(value: Any) -> bool:
    kind = type(value)
    return kind in _SIMPLE or (kind.__module__ == "numpy" and kind.__name__ == "ndarray")


def _start_method(loader: Any) -> str | None:
    return start_method(loader) if loader.num_workers else None


def start_method(loader: Any) -> str:
    """Return how workers of a loader are started, or would be if it had any."""
    context = loader.multiprocessing_context or sys.modules.get("multiprocessing")
    find = getattr(context, "get_start_method", None)
    method = None if find is None else find(allow_none=True)  # without it, asking would fix it
    if method is None:
        method = "forkserver" if sys.version_info >= (3, 14) else "fork"
    return method
