"""Replace functions of torch's and put them back, the same objects; nothing of ours gets out."""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from typing import TYPE_CHECKING, Any, Callable

from . import scripting, tracebacks

if TYPE_CHECKING:
    from typing import Optional

    Call = Callable[..., Any]
    Before = Optional[Callable[..., Any]]  # (args, kwargs) -> state
    After = Optional[Callable[..., Any]]  # (state, args, result, raised)

SKIPPED = tracebacks.PASSED_OVER
FAILURES = 3  # of one hook, after which it is left off
_MISSING = object()
_replaced: list[tuple[Any, str, Any, Any]] = []  # owner, attribute, what was there, what is ours
_guards: list[_Hook] = []  # of functions: on again when recording begins again
_patches: list[_Hook] = []  # of what is replaced: off for good
notes: list[tuple[str, str]] = []  # (what, why) that could not be observed; the recorder takes them


class _Hook:
    """Whether a hook is on; it goes off when it has failed too often."""

    __slots__ = ("failures", "name", "on")

    def __init__(self, name: str) -> None:
        self.name, self.failures, self.on = name, 0, True

    def call(self, part: Callable[..., Any] | None, *values: Any) -> Any:
        """Call our part, if the hook is on; give None where it failed."""
        if part is None or not self.on:
            return None
        try:
            return part(*values)
        except BaseException as error:
            if self.failed(error):
                raise
            return None

    def failed(self, error: BaseException) -> bool:
        """Write down that our part failed; tell whether the error is the user's to have."""
        if not isinstance(error, Exception) or tracebacks.from_a_signal_handler(error):
            tracebacks.strip(error)
            return True
        self.failures += 1
        self.on = self.failures < FAILURES
        notes.append((self.name, _told(error)))
        return False


def guarded(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a decorator: what fails inside is written down as not observed, and None is given back.

    After three failures the function is not called any more.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        hook = _Hook(name)
        _guards.append(hook)

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
    """Give the switch of what ``replace`` will set: off for good when everything is put back."""
    made = _Hook(name)
    _patches.append(made)
    return made


def around(name: str, before: Before, after: After) -> Callable[[Call], Call]:
    """Give a make-function for ``replace``: something before the original, something after it.

    ``before(args, kwargs)`` gives a state; ``after(state, args, result, raised)`` gets it, or None
    where ``before`` failed. The original is called once whatever happens to ours, its result is
    given back and its exceptions keep their traceback.
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
    own = vars(owner).get(attribute, _MISSING)
    original = getattr(owner, attribute) if own is _MISSING else own
    kind = type(original) if isinstance(original, (staticmethod, classmethod)) else None
    ours = make(original) if kind is None else kind(make(original.__func__))
    _sign(original, ours)
    scripting.stand_in(original, ours)
    setattr(owner, attribute, ours)
    _replaced.append((owner, attribute, own, ours))


def _sign(original: Any, ours: Any) -> None:
    """Give ours the signature of the original: ``inspect.getfullargspec`` asks no further."""
    inspect = sys.modules.get("inspect")
    if inspect is None or type(ours) is not types.FunctionType or ours is original:
        return
    with contextlib.suppress(TypeError, ValueError, NameError, AttributeError):  # not told in C
        ours.__signature__ = inspect.signature(original)


def is_replaced(owner: Any, attribute: str) -> bool:
    """Tell whether ``replace`` has been here."""
    return any(one[0] is owner and one[1] == attribute for one in _replaced)


def hand_on(attribute: str, ours: Any, own: Any) -> None:
    """Put ``own`` back in the end where ``ours`` was replaced: it is taken off from below."""
    for at, (owner, name, before, now) in enumerate(_replaced):
        if before is ours and name == attribute:
            _replaced[at] = (owner, name, own, now)


def put_back(owner: Any, attribute: str) -> None:
    """Undo one ``replace``, unless somebody has replaced ours since."""
    for at in range(len(_replaced) - 1, -1, -1):
        known, name, own, ours = _replaced[at]
        if known is owner and name == attribute and vars(owner).get(name, _MISSING) is ours:
            del _replaced[at]
            _set(owner, name, own)
            scripting.forget(ours)
            return


def restore_all() -> None:
    """Put everything back, last first; what somebody has replaced since is left, ours inert."""
    for hook in (*_guards, *_patches):
        hook.on = False
    _patches.clear()
    while _replaced:
        owner, attribute, own, ours = _replaced.pop()
        if vars(owner).get(attribute, _MISSING) is not ours:
            continue
        _set(owner, attribute, own)
        scripting.forget(ours)


def _set(owner: Any, attribute: str, own: Any) -> None:
    if own is _MISSING:
        delattr(owner, attribute)
    else:
        setattr(owner, attribute, own)


def resume() -> None:
    """Let guarded functions run again, after ``restore_all``."""
    for hook in _guards:
        hook.on, hook.failures = True, 0


def _told(error: BaseException) -> str:
    try:
        return repr(error)[:300]
    except Exception:
        return type(error).__name__
