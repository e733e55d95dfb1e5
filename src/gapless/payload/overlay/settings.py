"""SetGlobal: an attribute is our value, or its setter was called with it, whatever the user sets.

In workers of loaders nothing is kept: threads set for the training are not theirs.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import warnings
from typing import Any, Callable

from . import moments, precision, targets, telling, where

# Setters whose getter has a name that does not follow from theirs.
GETTERS = {
    "torch.autograd.set_detect_anomaly": "torch.is_anomaly_enabled",
    "torch.set_anomaly_enabled": "torch.is_anomaly_enabled",
    "torch.set_grad_enabled": "torch.is_grad_enabled",
    "torch.use_deterministic_algorithms": "torch.are_deterministic_algorithms_enabled",
}


class _Setting:
    """Something that is set, how it is asked for, and the value that an edit wants."""

    def __init__(self, number: int, edit: Any, owner: Any, name: str) -> None:
        self.number, self.target, self.value = number, edit["target"], edit["value"]
        self.owner, self.name = owner, name
        static = inspect.getattr_static(owner, name, None)
        self.setter: Any = None
        if callable(static) or isinstance(static, (staticmethod, classmethod)):
            self.setter = getattr(owner, name)
        self.ask = _getter(owner, name, self.target) if self.setter else self._attribute
        self.old = self.now()
        self.told = True

    def _attribute(self) -> Any:
        return getattr(self.owner, self.name)

    def now(self) -> Any:
        """Give what it is set to; MISSING where torch does not tell."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return self.ask()
            except (RuntimeError, AttributeError, TypeError):
                return targets.MISSING

    def put(self, value: Any) -> None:
        """Set it, without a warning."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.setter is None:
                setattr(self.owner, self.name, value)
            else:
                self.setter(value)

    def tell(self, found: Any) -> None:
        """Tell that ours was set in place of what was found."""
        old = None if found is targets.MISSING else found
        telling.told(self.number, self.target, old, self.value)

    def begin(self) -> None:
        """Set it for the first time."""
        if not self.is_ours(self.old):
            self.put(self.value)
        self.told = self.now() is not targets.MISSING
        self.tell(self.old)

    def enforce(self) -> None:
        """Set it again, if it is not ours any more.

        What torch told before and tells no longer was set by another name for the same (TF32).
        """
        found = self.now()
        gone = found is targets.MISSING and not self.told
        if gone or self.is_ours(found) or where.in_worker():
            return
        self.put(self.value)
        self.tell(found)

    def restore(self) -> None:
        """Set it to what it was before."""
        if self.old is not targets.MISSING and not self.is_ours(self.old):
            self.put(self.old)

    def is_ours(self, value: Any) -> bool:
        """Tell whether a value is the one that the edit wants."""
        return type(value) is type(self.value) and value == self.value


def lay(number: int, edit: Any) -> targets.Undo:
    """Lay an edit; give what takes it off."""
    return targets.when_there(number, edit["target"], functools.partial(_set, number, edit))


def _set(number: int, edit: Any, owner: Any, name: str) -> targets.Undo:
    setting = _Setting(number, edit, owner, name)
    setting.begin()
    undos: list[targets.Undo] = [setting.restore]
    kept = _what_sets(setting)
    if kept is not None:
        undos.append(targets.replace(*kept))
    undos.append(moments.at(setting.enforce))
    return functools.partial(targets.undo_all, undos)


def _what_sets(setting: _Setting) -> tuple[Any, str, Any] | None:
    """Give what the user sets it by: owner, name, and what makes ours of it."""
    if isinstance(setting.setter, type):  # a class that is called, or entered
        return setting.setter, "__init__", functools.partial(_keeping, setting, 1)
    if setting.setter is not None:
        return setting.owner, setting.name, functools.partial(_keeping, setting, 0)
    kind = type(setting.owner)
    if kind in (types.ModuleType, type):  # written without a call
        return None
    return kind, "__setattr__", functools.partial(_keeping_attribute, setting)


def _keeping(
    setting: _Setting, at: int, original: Callable[..., Any], switch: targets.Switch
) -> Callable[..., Any]:
    """Give a setter that sets our value; the user's is its argument number ``at``."""

    @functools.wraps(original)
    def set_ours(*args: Any, **kwargs: Any) -> Any:
        if not switch.on or where.in_worker():
            return original(*args, **kwargs)
        name = "" if len(args) > at else next(iter(kwargs), "")
        theirs = args[at] if len(args) > at else kwargs.get(name)
        if not setting.is_ours(theirs):
            setting.tell(theirs)
        if not at and setting.is_ours(setting.now()):
            return None  # some can be set only once
        if name:
            return original(*args, **{**kwargs, name: setting.value})
        return original(*args[:at], setting.value, *args[at + 1 :], **kwargs)

    return set_ours


def _keeping_attribute(setting: _Setting, original: Any, switch: targets.Switch) -> Any:
    """Give a ``__setattr__`` that sets our value."""

    @functools.wraps(original)
    def set_ours(self: Any, name: str, value: Any) -> None:
        wanted = switch.on and self is setting.owner and name == setting.name
        if wanted and not setting.is_ours(value) and not where.in_worker():
            setting.tell(value)
            value = setting.value
        original(self, name, value)

    return set_ours


def _getter(owner: Any, name: str, target: str) -> Callable[[], Any]:
    """Give what tells the value that a setter sets."""
    if target == "torch.set_float32_matmul_precision":
        return precision.of_products
    known = GETTERS.get(target)
    if known is not None:
        module, _, other = known.rpartition(".")
        return getattr(sys.modules[module], other)
    names = [name.replace("set_", start, 1) for start in ("get_", "is_")]
    if name.startswith("enable_"):
        names.append(name[len("enable_") :] + "_enabled")
    for other in names:
        if other != name and callable(getattr(owner, other, None)):
            return getattr(owner, other)
    return lambda: targets.MISSING
