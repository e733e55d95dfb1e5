"""Calls of other people's functions as marks: invisible to traceback, warning and compiler."""

from __future__ import annotations

import functools
import sys
import weakref
from _thread import get_ident
from types import FunctionType
from typing import Any

from ... import wire
from .. import compiling, patching, recorder, tracebacks
from ..process_state import keep_fields
from ..stacks import locations

_PAYLOAD = __name__.rpartition(".hooks.")[0]
_WINDOWS = _PAYLOAD + ".windows"
_ABSENT = object()
# (kind, thread) of the marked calls under way; of our wrappers the hooks that they are of.
_marked = keep_fields(inside=set(), hook_names=weakref.WeakKeyDictionary())


def around(name: str, before: Any = None, after: Any = None) -> Any:
    """Return a make-function for ``patching.replace``, as ``patching.around`` does.

    For what torch.compile may meet: in a graph that is being traced neither of ours is called. What
    this hook has wrapped already, where it goes by another name, gets no second wrapper.
    """
    make = patching.around(name, before, after, find_tracing=compiling.get_is_compiling)

    def make_once(original: Any) -> Any:
        if type(original) is FunctionType and _marked.hook_names.get(original) == name:
            return original
        call = make(original)
        _marked.hook_names[call] = name
        return call

    return make_once


def around_unnested(state: Any, is_wanted: Any, report: Any) -> Any:
    """Return a make-function: ``report(args, start, end)`` is called for outermost calls.

    ``state.is_busy``: one is under way; one of another thread meanwhile is not reported.
    ``is_wanted()``: whether any is reported. It is for every call: what is usual is written out
    here. Torch's tracer of stacks reads ``self`` among the locals of ``Module.__call__`` before its
    first line runs.
    """

    def make(original: Any) -> Any:
        compiles, now = compiling.get_is_compiling(), recorder.now

        @functools.wraps(original)
        def call(self: Any = _ABSENT, /, *rest_args: Any, **kwargs: Any) -> Any:
            args = rest_args if self is _ABSENT else (self, *rest_args)
            if state.is_busy or compiles() or not is_wanted():
                try:
                    return original(*args, **kwargs)
                except BaseException as error:
                    tracebacks.strip(error)
                    raise
            state.is_busy = True
            try:
                try:
                    start = now()
                    result = original(*args, **kwargs)
                finally:
                    state.is_busy = False
                report(args, start, now())
            except BaseException as error:
                tracebacks.strip(error)
                raise
            return result

        return call

    return make


def around_outermost(
    kind: Any, name: str, span: Any = None, note: Any = None, value_of: Any = None
) -> Any:
    """Return a make-function: each call that is not inside another of its kind is a mark.

    The subject is the site of the call; ``note(args, kwargs)`` looks at the arguments before the
    call, ``value_of(noted)`` gives the mark's value after it; ``span`` names the range in a window.
    """

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        key = (kind, get_ident())
        if key in _marked.inside or is_ours():
            return None
        noted = note(args, kwargs) if note is not None else None
        scope = _open_range(span)
        _marked.inside.add(key)
        return key, scope, noted, recorder.now()

    def after(state: Any, args: tuple[Any, ...], result: Any, raised: Any) -> Any:  # noqa: ARG001 - the form of `around`
        if state is None:
            return
        end = recorder.now()
        key, scope, noted, start = state
        _marked.inside.discard(key)
        if scope is not None:
            scope.__exit__(None, None, None)
        value = value_of(noted) if value_of is not None and raised is None else -1
        flags = wire.RAISED if raised is not None else 0
        recorder.mark(kind, start, end, site(), value, flags)

    return around(name, before, after)


def site() -> Any:
    """Return the id of the user's line that led here, ``wire.NOBODY`` if there is none."""
    location = locations.users_line(1)
    return wire.NOBODY if location is None else recorder.site(location)


def is_ours() -> bool:
    """Return whether a window of ours led here: what it calls is not the user's."""
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
    wrappers = {}

    def wrap_once(original: Any) -> Any:
        if id(original) not in wrappers:
            wrappers[id(original)] = make(original)
        return wrappers[id(original)]

    for owner in owners:
        if owner is not None and callable(getattr(owner, attribute, None)):
            patching.replace(owner, attribute, wrap_once)


def _open_range(span: Any) -> Any:
    windows = sys.modules.get(_WINDOWS)
    if span is None or windows is None or not hasattr(windows, "range"):
        return None
    scope = windows.range(span)
    if scope is not None:
        scope.__enter__()
    return scope
