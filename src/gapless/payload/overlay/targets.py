"""Find what an edit is about by its qualified name, and put something else there for a while."""

from __future__ import annotations

import sys
import types
from typing import Any, Callable

from .. import imports, patching, tracebacks
from . import telling

MISSING = patching._MISSING
Undo = Callable[[], None]
_standing: list[list[Any]] = []  # owner, name, what was there, what is ours: of what is replaced


class Switch:
    """Whether an edit is on: what cannot be put back, because others wrapped it, is inert."""

    __slots__ = ("on",)

    def __init__(self) -> None:
        self.on = True


class _Waiting:
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
        found = resolve(self.parts)
        if found is not None:
            self.begin(*found)
        elif depth + 1 < len(self.parts) and self._may_come(depth):
            self.wait(depth + 1)
        else:
            telling.refused(self.number, self.target, "there is no such thing")

    def _may_come(self, depth: int) -> bool:
        """Tell whether the next part may be a module: it is no other thing of this one's."""
        module = sys.modules.get(".".join(self.parts[:depth]))
        thing = getattr(module, "__dict__", {}).get(self.parts[depth])
        return thing is None or isinstance(thing, types.ModuleType)

    def begin(self, owner: Any, name: str) -> None:
        """Do what was to be done with the target."""
        try:
            undo = self.action(owner, name)
        except Exception as error:
            if tracebacks.from_a_signal_handler(error):
                raise
            telling.refused(self.number, self.target, repr(error)[:300])
        else:
            self.undos.append(undo)

    def off(self) -> None:
        """Wait no longer, and undo what was done."""
        self.on = False
        undo_all(self.undos)
        telling.lifted(self.number)


def when_there(number: int, target: str, action: Callable[[Any, str], Undo]) -> Undo:
    """Call ``action(owner, name)`` once ``target`` is imported, at once if it is.

    The action gives what undoes it. What fails is told as an edit that could not take effect.
    """
    telling.laid(number, target)
    waiting = _Waiting(number, target, action)
    waiting.wait(1)
    return waiting.off


def undo_all(undos: list[Undo]) -> None:
    """Undo all of these, the last one first, once."""
    while undos:
        undos.pop()()


def resolve(parts: list[str]) -> tuple[Any, str] | None:
    """Give the owner and the name of what these parts of a qualified name lead to, if it is there.

    Nothing is imported by it: torch imports some of its modules when they are asked for.
    """
    depth = len(parts) - 1
    while depth and ".".join(parts[:depth]) not in sys.modules:
        depth -= 1
    if not depth:
        return None
    owner: Any = sys.modules[".".join(parts[:depth])]
    for part in parts[depth:-1]:
        owner = _attribute(owner, part)
        if owner is MISSING:
            return None
    return (owner, parts[-1]) if _has(owner, parts[-1]) else None


def replace(owner: Any, name: str, make: Callable[[Any, Switch], Any]) -> Undo:
    """Set ``owner.name`` to ``make(original, switch)``; give what puts the original back.

    A function of a module is replaced in every module that has it by this name. ``switch.on``
    is False after the undoing, for those who hold ours still.
    """
    own = vars(owner).get(name, MISSING)
    original = getattr(owner, name) if own is MISSING else own
    kind = type(original) if isinstance(original, (staticmethod, classmethod)) else None
    switch = Switch()
    function = original if kind is None else original.__func__
    made = make(function, switch)
    _sign(function, made)
    ours = made if kind is None else kind(made)
    for one in _owners(owner, name, own):
        setattr(one, name, ours)
        _standing.append([one, name, own, ours])

    def undo() -> None:
        switch.on = False
        back = _taken(name, ours)
        for one in _owners(owner, name, ours):
            if vars(one).get(name, MISSING) is not ours:
                continue
            if back is MISSING:
                delattr(one, name)
            else:
                setattr(one, name, back)

    return undo


def _taken(name: str, ours: Any) -> Any:
    """Give what was there before ours; those who came after ours will put it back as well."""
    (back, *_) = [one[2] for one in _standing if one[3] is ours]
    _standing[:] = [one for one in _standing if one[3] is not ours]
    for one in _standing:
        if one[2] is ours and one[1] == name:
            one[2] = back
    patching.hand_on(name, ours, back)
    return back


def _owners(owner: Any, name: str, thing: Any) -> list[Any]:
    """Give the owner, and of a module's function all modules that have it by this name."""
    if not isinstance(owner, types.ModuleType) or thing is MISSING:
        return [owner]
    spaces = [(one, getattr(one, "__dict__", {})) for one in list(sys.modules.values())]
    others = [one for one, space in spaces if one is not owner and space.get(name) is thing]
    return [owner, *others]


def _sign(original: Any, made: Any) -> None:
    if isinstance(made, types.FunctionType):
        patching._sign(original, made)
        made.__code__ = made.__code__.replace(co_filename=patching.SKIPPED)


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
