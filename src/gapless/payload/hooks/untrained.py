"""Modules whose gradients are computed, and that no optimizer updates: teachers, frozen backbones.

They are known by what lies in ``grad`` after some steps. An optimizer may hold copies of a module's
parameters (in full precision, or all in one tensor) and update it by these: a module of the size of
what an optimizer holds, and no known module does, is left aside.
"""

from __future__ import annotations

import sys
from typing import Any

LOOKS = (10, 50, 200)  # edges after which gradients are looked for, until there are any
_COPY_TOLERANCE = 0.1  # of the size of copies: a flat one is padded


def find_untrained(
    modules: list[tuple[Any, Any]], parameter_lists: list[list[Any]]
) -> list[tuple[Any, Any, dict[str, Any]]]:
    """Return the modules with such gradients, where each was met, and what is told of it.

    ``modules``: modules and where each was met, the largest first; ``parameter_lists``: what each
    optimizer that has stepped holds; before any has, it is not known what they update, and none is
    returned. No tensor is read.
    """
    if not parameter_lists:
        return []
    known_ids: set[int] = set()
    owned = {id(item) for parameters in parameter_lists for item in parameters}
    candidates: list[tuple[Any, Any, list[Any]]] = []
    for module, location in [*modules, *_script_modules()]:
        parameters = [item for item in module.parameters() if id(item) not in known_ids]
        known_ids.update(map(id, parameters))
        graded = [item for item in parameters if id(item) not in owned and _has_gradient(item)]
        if graded:
            candidates.append((module, location, graded))
    copies = [
        _count_numbers(parameters)
        for parameters in parameter_lists
        if not any(id(item) in known_ids for item in parameters)
    ]
    return [
        (module, location, _describe(module, graded))
        for module, location, graded in candidates
        if not any(_are_alike(_count_numbers(graded), numbers) for numbers in copies)
    ]


def _script_modules() -> list[tuple[Any, None]]:
    """Return the modules that have a name in the user's script: not all are met on their way."""
    script, base = sys.modules.get("__main__"), sys.modules["torch"].nn.Module
    values = list(vars(script).values()) if script is not None else []
    return [(value, None) for value in values if issubclass(type(value), base)]


def _has_gradient(parameter: Any) -> bool:
    return bool(parameter.requires_grad and parameter.is_leaf and parameter.grad is not None)


def _count_numbers(parameters: list[Any]) -> int:
    return sum(parameter.numel() for parameter in parameters)


def _are_alike(numbers: int, copied: int) -> bool:
    return abs(numbers - copied) <= _COPY_TOLERANCE * max(numbers, copied)


def _describe(module: Any, graded: list[Any]) -> dict[str, Any]:
    kind = type(module)
    return {
        "class": f"{kind.__module__}.{kind.__qualname__}",
        "tensors": len(graded),
        "parameters": _count_numbers(graded),
    }
