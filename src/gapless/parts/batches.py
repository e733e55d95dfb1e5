"""Change the tensors of a batch, whatever containers they are in."""

from __future__ import annotations

import copy
import dataclasses
from collections import UserDict
from collections.abc import Iterator, Mapping, MutableSequence, Sequence
from typing import Any, Callable

import torch

Change = Callable[[Any], Any]

_PLAIN_TYPES = (str, bytes, bytearray, memoryview, range, type, int, float, torch.nn.Module)
_MAX_DEPTH = 8  # levels of somebody's objects in which tensors are looked for


def convert(node: Any, change_tensor: Change, change_object: Change) -> Any:
    """Change a batch: tensors by ``change_tensor``, others with ``to`` by ``change_object``.

    Where nothing is changed, it is the same object; else containers are new, of the same class.
    """
    new_node = node
    if isinstance(node, torch.Tensor):
        new_node = change_tensor(node)
    elif isinstance(node, _PLAIN_TYPES):
        pass
    elif isinstance(node, Mapping):
        new_node = _convert_mapping(node, change_tensor, change_object)
    elif callable(getattr(node, "to", None)):
        new_node = change_object(node)
    elif isinstance(node, Sequence):
        new_node = _convert_sequence(node, change_tensor, change_object)
    else:
        new_node = _convert_object(node, change_tensor, change_object)
    return new_node


def _convert_object(node: Any, change_tensor: Change, change_object: Change) -> Any:
    names = _name_attributes(node)
    values = {name: convert(getattr(node, name), change_tensor, change_object) for name in names}
    if all(getattr(node, name) is value for name, value in values.items()):
        return node
    clone = copy.copy(node)
    for name, value in values.items():
        object.__setattr__(clone, name, value)
    return clone


def _convert_mapping(node: Any, change_tensor: Change, change_object: Change) -> Any:
    values = {key: convert(value, change_tensor, change_object) for key, value in node.items()}
    if all(node[key] is value for key, value in values.items()):
        return node
    if isinstance(node, (dict, UserDict)):  # whose copy has items of its own
        clone: Any = copy.copy(node)
        for key, value in values.items():
            clone[key] = value
        return clone
    try:
        return type(node)(values)
    except TypeError:
        return values


def _convert_sequence(node: Any, change_tensor: Change, change_object: Change) -> Any:
    values = [convert(value, change_tensor, change_object) for value in node]
    if all(value is before for value, before in zip(values, node)):
        return node
    if hasattr(node, "_make"):  # a named tuple
        return type(node)._make(values)
    if isinstance(node, MutableSequence):
        clone: Any = copy.copy(node)
        for position, value in enumerate(values):
            clone[position] = value
        return clone
    try:
        return type(node)(values)
    except TypeError:
        return tuple(values)


def _name_attributes(node: Any) -> list[str]:
    """Return the attribute names of an object that is taken for a batch."""
    if dataclasses.is_dataclass(node):
        return [field.name for field in dataclasses.fields(node) if hasattr(node, field.name)]
    return list(vars(node)) if hasattr(node, "pin_memory") and hasattr(node, "__dict__") else []


def find_tensors(node: Any, depth: int = 0) -> Iterator[Any]:
    """Yield the tensors that are in an object of somebody's."""
    if isinstance(node, torch.Tensor):
        yield node
        return
    if depth > _MAX_DEPTH or isinstance(node, (str, bytes, type)):
        return
    if isinstance(node, Mapping):
        children: Any = node.values()
    elif isinstance(node, (tuple, list)):
        children = node
    else:
        children = getattr(node, "__dict__", {}).values()
    for child in list(children):
        yield from find_tensors(child, depth + 1)
