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

from . import reapply
from .patch import edit_counters, targets, where

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
        """Return what it is set to; MISSING where torch does not say."""
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

    def record_effect(self, previous: Any) -> None:
        """Record that ours was set in place of what was found."""
        old = None if previous is targets.MISSING else previous
        edit_counters.record_effect(self.number, self.target, old, self.value)

    def begin(self) -> None:
        """Set it for the first time."""
        if not self.is_ours(self.old):
            self.put(self.value)
        self.told = self.now() is not targets.MISSING
        self.record_effect(self.old)

    def enforce(self) -> None:
        """Set it again, if it is not ours any more.

        What torch said before and says no longer was set by another name for the same (TF32).
        """
        current = self.now()
        is_gone = current is targets.MISSING and not self.told
        if is_gone or self.is_ours(current) or where.in_worker():
            return
        self.put(self.value)
        self.record_effect(current)

    def restore(self) -> None:
        """Set it to what it was before."""
        if self.old is not targets.MISSING and not self.is_ours(self.old):
            self.put(self.old)

    def is_ours(self, value: Any) -> bool:
        """Return whether a value is the one that the edit wants."""
        return type(value) is type(self.value) and value == self.value


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it."""
    return targets.on_target(number, edit["target"], functools.partial(_set, number, edit))


def _set(number: int, edit: Any, owner: Any, name: str) -> targets.Undo:
    setting = _Setting(number, edit, owner, name)
    setting.begin()
    undos: list[targets.Undo] = [setting.restore]
    replacement = _find_setter(setting)
    if replacement is not None:
        undos.append(targets.replace(*replacement))
    undos.append(reapply.on_moments(setting.enforce))
    return functools.partial(targets.undo_all, undos)


def _find_setter(setting: _Setting) -> tuple[Any, str, Any] | None:
    """Return what the user sets it by: owner, name, and what makes ours of it."""
    if isinstance(setting.setter, type):  # a class that is called, or entered
        return setting.setter, "__init__", functools.partial(_wrap_setter, setting, 1)
    if setting.setter is not None:
        return setting.owner, setting.name, functools.partial(_wrap_setter, setting, 0)
    kind = type(setting.owner)
    if kind in (types.ModuleType, type):  # written without a call
        return None
    return kind, "__setattr__", functools.partial(_wrap_setattr, setting)


def _wrap_setter(
    setting: _Setting, position: int, original: Callable[..., Any], switch: targets.Switch
) -> Callable[..., Any]:
    """Return a setter that sets our value; the user's is its argument number ``position``."""

    @functools.wraps(original)
    def set_ours(*args: Any, **kwargs: Any) -> Any:
        if not switch.on or where.in_worker():
            return original(*args, **kwargs)
        name = "" if len(args) > position else next(iter(kwargs), "")
        users_value = args[position] if len(args) > position else kwargs.get(name)
        if not setting.is_ours(users_value):
            setting.record_effect(users_value)
        if not position and setting.is_ours(setting.now()):
            return None  # some can be set only once
        if name:
            return original(*args, **{**kwargs, name: setting.value})
        return original(*args[:position], setting.value, *args[position + 1 :], **kwargs)

    return set_ours


def _wrap_setattr(setting: _Setting, original: Any, switch: targets.Switch) -> Any:
    """Return a ``__setattr__`` that sets our value."""

    @functools.wraps(original)
    def set_ours(self: Any, name: str, value: Any) -> None:
        is_edited = switch.on and self is setting.owner and name == setting.name
        if is_edited and not setting.is_ours(value) and not where.in_worker():
            setting.record_effect(value)
            value = setting.value
        original(self, name, value)

    return set_ours


def _getter(owner: Any, name: str, target: str) -> Callable[[], Any]:
    """Return the getter of the value that a setter sets."""
    if target == "torch.set_float32_matmul_precision":
        return of_products
    known_getter = GETTERS.get(target)
    if known_getter is not None:
        module, _, getter_name = known_getter.rpartition(".")
        return getattr(sys.modules[module], getter_name)
    names = [name.replace("set_", start, 1) for start in ("get_", "is_")]
    if name.startswith("enable_"):
        names.append(name[len("enable_") :] + "_enabled")
    for getter_name in names:
        if getter_name != name and callable(getattr(owner, getter_name, None)):
            return getattr(owner, getter_name)
    return lambda: targets.MISSING


def of_products() -> str:
    """Return what ``torch.get_float32_matmul_precision`` does.

    Raises ``RuntimeError`` where the newer names have set it otherwise: torch then returns what was
    set by the older ones, and computes as the newer ones say.
    """
    torch = sys.modules["torch"]
    older = torch.get_float32_matmul_precision()
    ask = getattr(torch._C, "_get_fp32_precision_getter", None)
    if ask is not None and (ask("cuda", "matmul") == "tf32") is (older == "highest"):
        raise RuntimeError("set by the newer names")
    return older
