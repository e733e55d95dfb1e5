"""Skip: calls of a function do nothing, or only each so manyth does."""

from __future__ import annotations

import functools
from typing import Any, Callable

from .. import places
from . import targets, telling, where

# What torch calls of these itself, to capture a graph say, it needs.
_ONLY_OTHERS = ("torch.cuda.synchronize", "torch.cuda.empty_cache", "gc.collect")


def lay(number: int, edit: Any) -> targets.Undo:
    """Lay an edit; give what takes it off."""
    return targets.when_there(number, edit["target"], functools.partial(_replace, number, edit))


def _replace(number: int, edit: Any, owner: Any, name: str) -> Any:
    if isinstance(getattr(owner, name), type):
        raise TypeError("a class is constructed, its calls cannot be skipped")
    return targets.replace(owner, name, functools.partial(_skipping, number, edit))


def _skipping(
    number: int, edit: Any, original: Callable[..., Any], switch: targets.Switch
) -> Callable[..., Any]:
    every, target = edit.get("every"), edit["target"]
    only_others = target in _ONLY_OTHERS
    meant = where.matcher(edit.get("where"))
    calls = [0]

    @functools.wraps(original)
    def skipping(*args: Any, **kwargs: Any) -> Any:
        if not switch.on or not meant() or (only_others and places.callers_is_torch()):
            return original(*args, **kwargs)
        calls[0] += 1
        if every is not None and calls[0] % every == 0:
            return original(*args, **kwargs)
        telling.told(number, target, "called", "skipped")
        return None

    return skipping
