"""Calls of other people's functions as marks: unseen by traceback, warning and compiler."""

from __future__ import annotations

import functools
import sys
import weakref
from _thread import get_ident
from typing import Any

from ... import wire
from .. import compiling, patching, places, recorder, tracebacks

_PAYLOAD = __name__.rpartition(".hooks.")[0]
_WINDOWS = _PAYLOAD + ".windows"
_inside: set[Any] = set()  # (kind, thread) of the marked calls that are under way
_ABSENT = object()
_names: Any = weakref.WeakKeyDictionary()  # of the hooks that our wrappers are of


def around(name: str, before: Any = None, after: Any = None) -> Any:
    """Give a make-function for ``patching.replace``, as ``patching.around`` does.

    For what torch.compile may meet: in a graph that is being traced neither of ours is called. What
    this hook has wrapped already, where it goes by another name, gets no second wrapper.
    """
    before = patching.guarded(name)(before or _nothing)
    after = patching.guarded(name)(after or _nothing)

    def make(original: Any) -> Any:
        ours = getattr(getattr(original, "__code__", None), "co_filename", None)
        if ours == patching.SKIPPED and _names.get(original) == name:
            return original
        compiles = compiling.asker()

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if compiles():
                return original(*args, **kwargs)
            try:
                state = before(args, kwargs)
                try:
                    result = original(*args, **kwargs)
                except BaseException as raised:
                    after(state, args, None, raised)
                    raise
                after(state, args, result, None)
            except BaseException as error:
                tracebacks.strip(error)
                raise
            return result

        _names[call] = name
        return transparent(call)

    return make


def unnested(busy: Any, wanted: Any, passed: Any) -> Any:
    """Give a make-function: ``passed(args, start, end)`` is told of calls that are in no other.

    ``busy["busy"]``: one is under way; one of another thread meanwhile is not told. ``wanted()``:
    whether any is told. It is for every call: what is usual is written out here. Torch's tracer of
    stacks reads ``self`` among the locals of ``Module.__call__`` before its first line runs.
    """

    def make(original: Any) -> Any:
        compiles, now = compiling.asker(), recorder.now

        @functools.wraps(original)
        def call(self: Any = _ABSENT, /, *others: Any, **kwargs: Any) -> Any:
            args = others if self is _ABSENT else (self, *others)
            if busy["busy"] or compiles() or not wanted():
                try:
                    return original(*args, **kwargs)
                except BaseException as error:
                    tracebacks.strip(error)
                    raise
            busy["busy"] = True
            try:
                try:
                    start = now()
                    result = original(*args, **kwargs)
                finally:
                    busy["busy"] = False
                passed(args, start, now())
            except BaseException as error:
                tracebacks.strip(error)
                raise
            return result

        return transparent(call)

    return make


def transparent(function: Any) -> Any:
    """Give the function back, such that warnings do not name its file."""
    function.__code__ = function.__code__.replace(co_filename=patching.SKIPPED)
    return function


def outermost(kind: Any, name: str, span: Any = None, note: Any = None, done: Any = None) -> Any:
    """Give a make-function: each call that is not inside another of its kind is a mark.

    The subject is the site of the call; ``note(args, kwargs)`` looks at the arguments before the
    call, ``done(noted)`` gives the mark's value after it; ``span`` names the range in a window.
    """

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        key = (kind, get_ident())
        if key in _inside or ours():
            return None
        noted = note(args, kwargs) if note is not None else None
        scope = _opened(span)
        _inside.add(key)
        return key, scope, noted, recorder.now()

    def after(state: Any, args: tuple[Any, ...], result: Any, raised: Any) -> Any:  # noqa: ARG001 - the form of `around`
        if state is None:
            return
        end = recorder.now()
        key, scope, noted, start = state
        _inside.discard(key)
        if scope is not None:
            scope.__exit__(None, None, None)
        value = done(noted) if done is not None and raised is None else -1
        flags = wire.RAISED if raised is not None else 0
        recorder.mark(kind, start, end, site(), value, flags)

    return around(name, before, after)


def site() -> Any:
    """Give the id of the user's line that led here, ``wire.NOBODY`` if there is none."""
    place = places.users_line(1)
    return wire.NOBODY if place is None else recorder.site(place)


def ours() -> bool:
    """Tell whether a window of ours led here: what it calls is not the user's."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(_WINDOWS):
            return True
        frame = frame.f_back
    return False


def replace_all(owner: Any, names: Any, make: Any) -> None:
    """Replace those of the attributes that the owner itself defines as functions."""
    for name in names:
        if callable(vars(owner).get(name)):
            patching.replace(owner, name, make)


def replace_everywhere(owners: Any, attribute: Any, make: Any) -> None:
    """Replace one function that several modules know, by one and the same wrapper."""
    made = {}

    def once(original: Any) -> Any:
        if id(original) not in made:
            made[id(original)] = make(original)
        return made[id(original)]

    for owner in owners:
        if owner is not None and callable(getattr(owner, attribute, None)):
            patching.replace(owner, attribute, once)


def _opened(span: Any) -> Any:
    windows = sys.modules.get(_WINDOWS)
    if span is None or windows is None or not hasattr(windows, "range"):
        return None
    scope = windows.range(span)
    if scope is not None:
        scope.__enter__()
    return scope


def _nothing(*_: Any) -> None:
    """Look at nothing."""
