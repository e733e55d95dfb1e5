"""Change the tensors of a batch, whatever containers they are in."""

from __future__ import annotations

import copy
import dataclasses
from collections import UserDict
from collections.abc import Iterator, Mapping, MutableSequence, Sequence
from typing import Any, Callable

import torch

Change = Callable[[Any], Any]

_SIMPLE = (str, bytes, bytearray, memoryview, range, type, int, float, torch.nn.Module)
_DEEPEST = 8  # levels of somebody's objects in which tensors are looked for


def convert(thing: Any, tensor: Change, whole: Change) -> Any:
    """Give a batch with tensors changed by ``tensor`` and other things with ``to`` by ``whole``.

    Where nothing is changed, it is the same object; else containers are new, of the same class.
    """
    made = thing
    if isinstance(thing, torch.Tensor):
        made = tensor(thing)
    elif isinstance(thing, _SIMPLE):
        pass
    elif isinstance(thing, Mapping):
        made = _mapping(thing, tensor, whole)
    elif callable(getattr(thing, "to", None)):
        made = whole(thing)
    elif isinstance(thing, Sequence):
        made = _sequence(thing, tensor, whole)
    else:
        made = _object(thing, tensor, whole)
    return made


def _object(thing: Any, tensor: Change, whole: Change) -> Any:
    names = _attributes(thing)
    values = {name: convert(getattr(thing, name), tensor, whole) for name in names}
    if all(getattr(thing, name) is value for name, value in values.items()):
        return thing
    made = copy.copy(thing)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def _mapping(thing: Any, tensor: Change, whole: Change) -> Any:
    values = {key: convert(value, tensor, whole) for key, value in thing.items()}
    if all(thing[key] is value for key, value in values.items()):
        return thing
    if isinstance(thing, (dict, UserDict)):  # whose copy has items of its own
        made: Any = copy.copy(thing)
        for key, value in values.items():
            made[key] = value
        return made
    try:
        return type(thing)(values)
    except TypeError:
        return values


def _sequence(thing: Any, tensor: Change, whole: Change) -> Any:
    values = [convert(value, tensor, whole) for value in thing]
    if all(value is before for value, before in zip(values, thing)):
        return thing
    if hasattr(thing, "_make"):  # a named tuple
        return type(thing)._make(values)
    if isinstance(thing, MutableSequence):
        made: Any = copy.copy(thing)
        for position, value in enumerate(values):
            made[position] = value
        return made
    try:
        return type(thing)(values)
    except TypeError:
        return tuple(values)


def _attributes(thing: Any) -> list[str]:
    """Name the attributes of an object that is taken for a batch."""
    if dataclasses.is_dataclass(thing):
        return [field.name for field in dataclasses.fields(thing) if hasattr(thing, field.name)]
    return list(vars(thing)) if hasattr(thing, "pin_memory") and hasattr(thing, "__dict__") else []


def tensors_in(thing: Any, depth: int = 0) -> Iterator[Any]:
    """Give the tensors that are in an object of somebody's."""
    if isinstance(thing, torch.Tensor):
        yield thing
        return
    if depth > _DEEPEST or isinstance(thing, (str, bytes, type)):
        return
    if isinstance(thing, Mapping):
        parts: Any = thing.values()
    elif isinstance(thing, (tuple, list)):
        parts = thing
    else:
        parts = getattr(thing, "__dict__", {}).values()
    for part in list(parts):
        yield from tensors_in(part, depth + 1)
