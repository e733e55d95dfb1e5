"""Skip: calls of a function do nothing, or only every n-th does."""

from __future__ import annotations

import functools
from typing import Any, Callable

from ..stacks import locations
from .patch import edit_counters, targets, where

# What torch calls of these itself, to capture a graph say, it needs.
_NEEDED_BY_TORCH = ("torch.cuda.synchronize", "torch.cuda.empty_cache", "gc.collect")


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it."""
    return targets.on_target(number, edit["target"], functools.partial(_replace, number, edit))


def _replace(number: int, edit: Any, owner: Any, name: str) -> Any:
    if isinstance(getattr(owner, name), type):
        raise TypeError("a class is constructed, its calls cannot be skipped")
    return targets.replace(owner, name, functools.partial(_wrap_skipped, number, edit))


def _wrap_skipped(
    number: int, edit: Any, original: Callable[..., Any], switch: targets.Switch
) -> Callable[..., Any]:
    period, target = edit.get("every"), edit["target"]
    exempts_torch = target in _NEEDED_BY_TORCH
    is_meant = where.matcher(edit.get("where"))
    calls = [0]

    @functools.wraps(original)
    def skipping(*args: Any, **kwargs: Any) -> Any:
        if not switch.on or not is_meant() or (exempts_torch and locations.callers_is_torch()):
            return original(*args, **kwargs)
        calls[0] += 1
        if period is not None and calls[0] % period == 0:
            return original(*args, **kwargs)
        edit_counters.record_effect(number, target, "called", "skipped")
        return None

    return skipping
