"""Find what an edit is about by its qualified name, and put something else there for a while."""

from __future__ import annotations

import sys
import types
from typing import Any, Callable

from ... import imports, patching, tracebacks
from . import edit_counters

MISSING = patching.MISSING
Undo = Callable[[], None]


class Switch:
    """Whether an edit is on: what cannot be put back, because others wrapped it, is inert."""

    __slots__ = ("on",)

    def __init__(self) -> None:
        self.on = True


class _PendingEdit:
    """An edit whose target is not imported yet."""

    def __init__(self, number: int, target: str, action: Callable[[Any, str], Any]) -> None:
        self.number, self.target, self.action = number, target, action
        self.parts = target.split(".")
        self.on = True
        self.undos: list[Undo] = []

    def wait(self, depth: int) -> None:
        """Go on when the module that these many parts name is imported."""
        imports.when_imported(".".join(self.parts[:depth]), lambda _module: self.attempt(depth))

    def attempt(self, depth: int) -> None:
        """Find the target; where it is not there yet, wait for a module further down."""
        if not self.on:
            return
        target = resolve(self.parts)
        if target is not None:
            self.begin(*target)
        elif depth + 1 < len(self.parts) and self._may_come(depth):
            self.wait(depth + 1)
        else:
            edit_counters.record_refusal(self.number, self.target, "there is no such thing")

    def _may_come(self, depth: int) -> bool:
        """Return whether the next part may be a module: it is no other thing of this one's."""
        module = sys.modules.get(".".join(self.parts[:depth]))
        child = getattr(module, "__dict__", {}).get(self.parts[depth])
        return child is None or isinstance(child, types.ModuleType)

    def begin(self, owner: Any, name: str) -> None:
        """Do what was to be done with the target."""
        try:
            undo = self.action(owner, name)
        except Exception as error:
            if tracebacks.from_a_signal_handler(error):
                raise
            edit_counters.record_refusal(self.number, self.target, repr(error)[:300])
        else:
            self.undos.append(undo)

    def off(self) -> None:
        """Wait no longer, and undo what was done."""
        self.on = False
        undo_all(self.undos)
        edit_counters.record_revert(self.number)


def on_target(number: int, target: str, action: Callable[[Any, str], Undo]) -> Undo:
    """Call ``action(owner, name)`` once ``target`` is imported, at once if it is.

    The action returns what undoes it. What fails is recorded as an edit that could not take effect.
    """
    edit_counters.register_edit(number, target)
    pending = _PendingEdit(number, target, action)
    pending.wait(1)
    return pending.off


def undo_all(undos: list[Undo]) -> None:
    """Undo all of these, the last one first, once."""
    while undos:
        undos.pop()()


def resolve(parts: list[str]) -> tuple[Any, str] | None:
    """Return owner and name of what these parts of a qualified name lead to, if it is there.

    Nothing is imported by it: torch imports some of its modules when they are asked for.
    """
    depth = len(parts) - 1
    while depth and ".".join(parts[:depth]) not in sys.modules:
        depth -= 1
    if not depth:
        return None
    owner: Any = sys.modules[".".join(parts[:depth])]
    for name in parts[depth:-1]:
        owner = _attribute(owner, name)
        if owner is MISSING:
            return None
    return (owner, parts[-1]) if _has(owner, parts[-1]) else None


def replace(owner: Any, name: str, make: Callable[[Any, Switch], Any]) -> Undo:
    """Set ``owner.name`` to ``make(original, switch)``; return what puts the original back.

    A function of a module is replaced in every module that has it by this name. ``switch.on``
    is False after the undoing, for those who hold ours still.
    """
    switch = Switch()
    replacement = patching.replace(
        owner, name, lambda original: make(original, switch), is_everywhere=True
    )

    def undo() -> None:
        switch.on = False
        replacement.undo()

    return undo


def _attribute(owner: Any, name: str) -> Any:
    if type(owner) is types.ModuleType:
        return vars(owner).get(name, MISSING)
    return getattr(owner, name, MISSING)


def _has(owner: Any, name: str) -> bool:
    if type(owner) is types.ModuleType:
        return name in vars(owner)
    if hasattr(type(owner), name):  # a property, which may raise when it is asked
        return True
    return hasattr(owner, name)
