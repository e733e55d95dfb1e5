"""Replace functions of torch's and put them back, the same objects; nothing of ours gets out."""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from typing import TYPE_CHECKING, Any, Callable

from . import scripting, tracebacks
from .process_state import STATE

if TYPE_CHECKING:
    from typing import Optional

    Call = Callable[..., Any]
    Before = Optional[Callable[..., Any]]  # (args, kwargs) -> state
    After = Optional[Callable[..., Any]]  # (state, args, result, raised)

SKIPPED = tracebacks.PASSED_OVER
FAILURES = 3  # of one hook, after which it is left off
MISSING = object()


class _Hook:
    """Whether a hook is on; it goes off when it has failed too often, and when the process ends."""

    __slots__ = ("failures", "has_ended", "name", "on")

    def __init__(self, name: str) -> None:
        self.name, self.failures, self.on = name, 0, True
        self.has_ended = False  # of the process: what we are made of is taken apart from now on

    def call(self, action: Callable[..., Any] | None, *values: Any) -> Any:
        """Call our part, if the hook is on; return None where it failed."""
        if action is None or not self.on:
            return None
        try:
            return action(*values)
        except BaseException as error:
            if self.failed(error):
                raise
            return None

    def failed(self, error: BaseException) -> bool:
        """Write down that our part failed; return whether the error is the user's to have."""
        if not isinstance(error, Exception) or tracebacks.from_a_signal_handler(error):
            tracebacks.strip(error)
            return True
        self.failures += 1
        self.on = self.failures < FAILURES
        STATE.note(self.name, error)
        return False


class _Patches:
    """What is replaced, and which hooks are on."""

    def __init__(self) -> None:
        self.replaced: list[Replacement] = []
        self.guards: list[_Hook] = []  # of functions: on again when recording begins again
        self.hooks: list[_Hook] = []  # of what is replaced: off for good


_patches = STATE.keep(_Patches())


def guard(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator: what fails inside is noted as not observed, and returns None.

    After three failures the function is not called any more.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        hook = _Hook(name)
        _patches.guards.append(hook)

        @functools.wraps(function)
        def safe(*args: Any, **kwargs: Any) -> Any:
            if not hook.on:
                return None
            try:
                return function(*args, **kwargs)
            except BaseException as error:
                if hook.failed(error):
                    raise
                return None

        safe.guarded = hook  # type: ignore[attr-defined]  # one guard is enough
        return safe

    return decorate


def hook(name: str) -> _Hook:
    """Return the switch of what ``replace`` will set: off for good when everything is put back."""
    new_hook = _Hook(name)
    _patches.hooks.append(new_hook)
    return new_hook


def around(
    name: str, before: Before, after: After, find_tracing: Callable[[], Call] | None = None
) -> Callable[[Call], Call]:
    """Return a make-function for ``replace``: something before the original, something after it.

    ``before(args, kwargs)`` returns a state; ``after(state, args, result, raised)`` gets it, or
    None where ``before`` failed. The original is called once whatever happens to ours, its result
    is returned and its exceptions keep their traceback. ``find_tracing()`` returns a function that
    says whether the compiler is tracing: then neither of ours is called.
    """

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        switch, is_tracing = hook(name), (find_tracing or _find_none)()

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if is_tracing():
                return original(*args, **kwargs)
            state = switch.call(before, args, kwargs)
            try:
                result = original(*args, **kwargs)
            except BaseException as raised:
                if not switch.has_ended:
                    tracebacks.strip(raised)
                switch.call(after, state, args, None, raised)
                raise
            switch.call(after, state, args, result, None)
            return result

        return wrapper

    return make


def _find_none() -> Call:
    return bool  # of nothing: no


class Replacement:
    """A function that ours stands in for, by one name in its owners."""

    __slots__ = ("installed", "is_everywhere", "name", "owner", "previous")

    def __init__(self, owner: Any, name: str, *, is_everywhere: bool) -> None:
        self.owner, self.name, self.is_everywhere = owner, name, is_everywhere
        self.previous: Any = vars(owner).get(name, MISSING)  # its own, if it has one
        self.installed: Any = None

    def install(self, make: Call) -> None:
        """Put there what is made of the original."""
        original = getattr(self.owner, self.name) if self.previous is MISSING else self.previous
        kind = type(original) if isinstance(original, (staticmethod, classmethod)) else None
        function = original if kind is None else original.__func__
        ours = make(function)
        if ours is not function:
            _sign(function, ours)
            scripting.stand_in(function, ours)
        self.installed = ours if kind is None else kind(ours)
        for owner in self._owners(self.previous):
            setattr(owner, self.name, self.installed)

    def undo(self) -> None:
        """Put back what was there, once; not where somebody has replaced ours since.

        What came later, and is put back later, puts that back as well.
        """
        if self not in _patches.replaced:
            return
        _patches.replaced.remove(self)
        for later in _patches.replaced:
            if later.previous is self.installed and later.name == self.name:
                later.previous = self.previous
        for owner in self._owners(self.installed):
            if vars(owner).get(self.name, MISSING) is not self.installed:
                continue
            if self.previous is MISSING:
                delattr(owner, self.name)
            else:
                setattr(owner, self.name, self.previous)
        scripting.forget(getattr(self.installed, "__func__", self.installed))

    def _owners(self, value: Any) -> list[Any]:
        """Return the owner; for a module's function all modules that have it by this name, too."""
        if (
            not self.is_everywhere
            or not isinstance(self.owner, types.ModuleType)
            or value is MISSING
        ):
            return [self.owner]
        spaces = [(module, getattr(module, "__dict__", {})) for module in [*sys.modules.values()]]
        others = [module for module, space in spaces if space.get(self.name) is value]
        return [self.owner, *(module for module in others if module is not self.owner)]


def replace(owner: Any, name: str, make: Call, *, is_everywhere: bool = False) -> Replacement:
    """Set ``owner.name`` to ``make(original)``; return what puts the original back.

    ``is_everywhere``: in every module that has a module's function by this name.
    """
    replacement = Replacement(owner, name, is_everywhere=is_everywhere)
    replacement.install(make)
    _patches.replaced.append(replacement)
    return replacement


def _sign(original: Any, ours: Any) -> None:
    """Give ours the signature of the original, and frames that warnings pass over.

    ``inspect.getfullargspec`` asks no further than ours.
    """
    if type(ours) is not types.FunctionType:
        return
    if ours.__code__.co_filename != SKIPPED:
        ours.__code__ = ours.__code__.replace(co_filename=SKIPPED)
    inspect = sys.modules.get("inspect")
    if inspect is not None:
        with contextlib.suppress(
            TypeError, ValueError, NameError, AttributeError
        ):  # not known in C
            ours.__signature__ = inspect.signature(original)


def is_replaced(owner: Any, name: str) -> bool:
    """Return whether ``replace`` has been here."""
    return any(entry.owner is owner and entry.name == name for entry in _patches.replaced)


def restore_all() -> None:
    """Put everything back, last first; what somebody has replaced since is left, ours inert."""
    for hook in (*_patches.guards, *_patches.hooks):
        hook.on = False
    _patches.hooks.clear()
    while _patches.replaced:
        _patches.replaced[-1].undo()


def end() -> None:
    """Leave every hook off from now on: the interpreter is about to clear our modules.

    What is replaced stays so, and is called while objects are torn down: the original alone.
    """
    for hook in (*_patches.guards, *_patches.hooks):
        hook.on, hook.has_ended = False, True


def resume() -> None:
    """Let guarded functions run again, after ``restore_all``."""
    for hook in _patches.guards:
        hook.on, hook.has_ended, hook.failures = True, False, 0
