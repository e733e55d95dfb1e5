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
_MISSING = object()


class _Hook:
    """Whether a hook is on; it goes off when it has failed too often."""

    __slots__ = ("failures", "name", "on")

    def __init__(self, name: str) -> None:
        self.name, self.failures, self.on = name, 0, True

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
        # Owner, attribute, what was there, what is ours.
        self.replaced: list[tuple[Any, str, Any, Any]] = []
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


def around(name: str, before: Before, after: After) -> Callable[[Call], Call]:
    """Return a make-function for ``replace``: something before the original, something after it.

    ``before(args, kwargs)`` returns a state; ``after(state, args, result, raised)`` gets it, or
    None where ``before`` failed. The original is called once whatever happens to ours, its result
    is returned and its exceptions keep their traceback.
    """

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        switch = hook(name)

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            state = switch.call(before, args, kwargs)
            try:
                result = original(*args, **kwargs)
            except BaseException as raised:
                tracebacks.strip(raised)
                switch.call(after, state, args, None, raised)
                raise
            switch.call(after, state, args, result, None)
            return result

        wrapper.__code__ = wrapper.__code__.replace(co_filename=SKIPPED)
        return wrapper

    return make


def replace(owner: Any, attribute: str, make: Callable[[Any], Any]) -> None:
    """Set ``owner.attribute`` to ``make(original)``, and remember what was there."""
    own_value = vars(owner).get(attribute, _MISSING)
    original = getattr(owner, attribute) if own_value is _MISSING else own_value
    kind = type(original) if isinstance(original, (staticmethod, classmethod)) else None
    replacement = make(original) if kind is None else kind(make(original.__func__))
    _sign(original, replacement)
    scripting.stand_in(original, replacement)
    setattr(owner, attribute, replacement)
    _patches.replaced.append((owner, attribute, own_value, replacement))


def _sign(original: Any, replacement: Any) -> None:
    """Give ours the signature of the original: ``inspect.getfullargspec`` asks no further."""
    inspect = sys.modules.get("inspect")
    if inspect is None or type(replacement) is not types.FunctionType or replacement is original:
        return
    with contextlib.suppress(TypeError, ValueError, NameError, AttributeError):  # not known in C
        replacement.__signature__ = inspect.signature(original)


def is_replaced(owner: Any, attribute: str) -> bool:
    """Return whether ``replace`` has been here."""
    return any(entry[0] is owner and entry[1] == attribute for entry in _patches.replaced)


def hand_on(attribute: str, replacement: Any, previous: Any) -> None:
    """Put ``previous`` back in the end where ``replacement`` was: it is taken off from below."""
    for index, (owner, name, before, now) in enumerate(_patches.replaced):
        if before is replacement and name == attribute:
            _patches.replaced[index] = (owner, name, previous, now)


def put_back(owner: Any, attribute: str) -> None:
    """Undo one ``replace``, unless somebody has replaced ours since."""
    for index in range(len(_patches.replaced) - 1, -1, -1):
        replaced_owner, name, own_value, replacement = _patches.replaced[index]
        if (
            replaced_owner is owner
            and name == attribute
            and vars(owner).get(name, _MISSING) is replacement
        ):
            del _patches.replaced[index]
            _set(owner, name, own_value)
            scripting.forget(replacement)
            return


def restore_all() -> None:
    """Put everything back, last first; what somebody has replaced since is left, ours inert."""
    for hook in (*_patches.guards, *_patches.hooks):
        hook.on = False
    _patches.hooks.clear()
    while _patches.replaced:
        owner, attribute, own_value, replacement = _patches.replaced.pop()
        if vars(owner).get(attribute, _MISSING) is not replacement:
            continue
        _set(owner, attribute, own_value)
        scripting.forget(replacement)


def _set(owner: Any, attribute: str, own_value: Any) -> None:
    if own_value is _MISSING:
        delattr(owner, attribute)
    else:
        setattr(owner, attribute, own_value)


def resume() -> None:
    """Let guarded functions run again, after ``restore_all``."""
    for hook in _patches.guards:
        hook.on, hook.failures = True, 0
