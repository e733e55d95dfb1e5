"""Flags of optimizers that are switched while they step: ``fused`` and ``foreach``."""

from __future__ import annotations

import sys
import weakref
from typing import Any

from ..overlay import optimizers
from ..overlay.patch import edit_counters, targets, where

NAMES = ("fused", "foreach")


def is_flag(edit: Any) -> bool:
    """Return whether an edit is one of flags of optimizers."""
    if edit["kind"] != "set_argument" or edit["name"] not in NAMES:
        return False
    return edit["target"].rpartition(".")[2][:1].isupper()


class FlagEdit:
    """An edit of a flag, and the optimizers that were made where it is meant."""

    def __init__(self, number: int, edit: Any) -> None:
        self.number, self.name, self.value = number, edit["name"], edit["value"]
        self.target = f"{edit['target']}.{self.name}"
        self.class_name = edit["target"].rpartition(".")[2]
        self.is_meant = where.matcher(edit.get("where"))
        self.references: list[Any] = []
        optimizers.on_optimizer(self._note)

    def _note(self, optimizer: Any) -> None:
        names = [base.__name__ for base in type(optimizer).__mro__]
        is_known = any(reference() is optimizer for reference in self.references)
        if self.class_name in names and not is_known and self.is_meant():
            self.references.append(weakref.ref(optimizer))

    def apply(self) -> targets.Undo:
        """Set the flag; return what reverts it. Raises ``ValueError`` where torch would refuse."""
        live = [reference() for reference in self.references]
        undos: list[targets.Undo] = []
        for optimizer in live:
            if optimizer is not None:
                self._check(optimizer)
        edit_counters.register_edit(self.number, self.target)
        for optimizer in live:
            if optimizer is not None:
                old = [group[self.name] for group in optimizer.param_groups]
                undos.append(_set(optimizer, self.name, self.value))
                edit_counters.record_effect(self.number, self.target, old[0], self.value)
        undos.insert(0, lambda: edit_counters.record_revert(self.number))
        return lambda: targets.undo_all(undos)

    def _check(self, optimizer: Any) -> None:
        torch = sys.modules["torch"]
        fits = getattr(
            sys.modules["torch.optim.optimizer"], "_device_dtype_check_for_fused", lambda _: None
        )
        for group in optimizer.param_groups:
            if self.name not in group:
                raise ValueError(f"{type(optimizer).__name__} has no {self.name}")
            if self.value and group.get("differentiable"):
                raise ValueError("the optimizer is differentiable")
            if self.value and isinstance(group.get("lr"), torch.Tensor):
                raise ValueError("the learning rate is a tensor")
            for tensor in group["params"] if self.value and self.name == "fused" else ():
                fits(tensor)


def _set(optimizer: Any, name: str, value: Any) -> targets.Undo:
    """Set a flag of all groups, the other one to what goes with it; return what reverts it."""
    old_flags = [{flag: group.get(flag) for flag in NAMES} for group in optimizer.param_groups]
    scales = getattr(optimizer, "_step_supports_amp_scaling", None)
    (other_flag,) = (flag for flag in NAMES if flag != name)
    for group in optimizer.param_groups:
        group.update(
            {name: value}, **({other_flag: False} if value and other_flag in group else {})
        )
    if name == "fused" and value:
        optimizer._step_supports_amp_scaling = True
    _place_counts(optimizer)

    def undo() -> None:
        for group, flags in zip(optimizer.param_groups, old_flags):
            group.update({flag: old for flag, old in flags.items() if flag in group})
        if scales is not None:
            optimizer._step_supports_amp_scaling = scales
        elif "_step_supports_amp_scaling" in vars(optimizer):
            del optimizer._step_supports_amp_scaling
        _place_counts(optimizer)

    return undo


def _place_counts(optimizer: Any) -> None:
    """Put the counts of steps where the flags want them: beside the weights, or on the CPU."""
    torch = sys.modules["torch"]
    for group in optimizer.param_groups:
        is_on_device = group.get("fused") or group.get("capturable")
        for parameter in group["params"]:
            state = optimizer.state.get(parameter) or {}
            if isinstance(state.get("step"), torch.Tensor):
                device = parameter.device if is_on_device else torch.device("cpu")
                state["step"] = state["step"].to(device)
