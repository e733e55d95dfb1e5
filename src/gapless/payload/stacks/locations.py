"""Find the line of the user's that a call came from."""

from __future__ import annotations

import functools
import os
import sys
import types
from typing import Any

from ..process_state import keep_fields
from ..tracebacks import OURS, PASSED_OVER

CodeLocation = tuple[str, int, str]  # file, line, function

MAX_FILES = 20_000  # files that are remembered; code can be made from text all the time
_LAYERS = 8  # decorators around a function
_USERS, _LIBRARYS, _TORCHS = range(3)
_LIBRARY = os.path.dirname(os.__file__) + os.sep
_PUBLIC = os.path.join(os.sep, "gapless", "__init__.py")  # gapless.step(), wherever it lies
_files = keep_fields(origins={})  # scripts have few


def users_line(depth: int = 0) -> CodeLocation | None:
    """Return file, line and function of the innermost frame that is the user's.

    That is neither ours, nor torch's, nor of the standard library or a site-packages folder. None
    such: the innermost that is neither ours nor torch's. ``depth`` frames are left out first.
    """
    frame = users_frame(depth + 1)
    return None if frame is None else frame_location(frame)


def users_frame(depth: int = 0) -> Any:
    """Return the frame whose line ``users_line`` returns."""
    return _innermost(sys._getframe(depth + 1))


def of_frame(frame: Any) -> CodeLocation | None:
    """Return the line that ``users_line`` would return if it was called in a frame."""
    innermost = _innermost(frame)
    return None if innermost is None else frame_location(innermost)


def of_users_frame(frame: Any) -> CodeLocation | None:
    """Return the innermost line of the user's own in a frame, or around it; None: there is none."""
    innermost = _innermost(frame)
    return frame_location(innermost) if innermost is not None and is_users(innermost) else None


def is_users(frame: Any) -> bool:
    """Return whether a frame is of the user's own code."""
    return _origin_of(frame.f_code.co_filename) == _USERS


def _innermost(frame: Any) -> Any:
    second: Any = None
    while frame is not None:
        origin = _origin_of(frame.f_code.co_filename)
        if origin == _USERS:
            return frame
        if origin == _LIBRARYS and second is None:
            second = frame
        frame = frame.f_back
    return second


def of_function(function: Any) -> CodeLocation | None:
    """Return where a function begins, if it is the user's; of a method, a partial, a callable too.

    Nothing of the user's is run by asking.
    """
    for _ in range(_LAYERS):
        if type(function) is functools.partial:
            function = function.func
        elif type(function) is types.MethodType:
            function = function.__func__
        elif type(function) is types.FunctionType:
            function = function.__dict__.get("__wrapped__", function)
        else:
            function = of_class(type(function), "__call__")
    code = function.__code__ if type(function) is types.FunctionType else None
    if code is None or _origin_of(code.co_filename) != _USERS:
        return None
    return code.co_filename, code.co_firstlineno, code.co_name


def of_class(kind: type, name: str) -> Any:
    """Return what a class, or one that it is made of, calls so; None: none does."""
    for base in type.__dict__["__mro__"].__get__(kind):
        if name in type.__dict__["__dict__"].__get__(base):
            return type.__dict__["__dict__"].__get__(base)[name]
    return None


def callers_is_torch() -> bool:
    """Return whether the innermost frame that is not ours is torch's own."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((OURS, PASSED_OVER)):
        frame = frame.f_back
    return frame is not None and _origin_of(frame.f_code.co_filename) == _TORCHS


def by_library(instance: object) -> bool:
    """Return whether a library, and not the user's own code, makes a thing that is being made.

    The ``__init__`` of a class that a library derived from torch's is passed over. The names inside
    functions are left alone: to read them would keep what they name alive.
    """
    inits = _init_codes(type(instance))
    frame: Any = sys._getframe(1)
    while frame is not None:
        origin = _origin_of(frame.f_code.co_filename)
        if origin != _TORCHS and frame.f_code not in inits:
            return origin == _LIBRARYS
        frame = frame.f_back
    return False


def _init_codes(kind: type) -> list[Any]:
    """Return the code of each ``__init__`` of a class and those it is made of, decorators' too."""
    codes: list[Any] = []
    for base in type.__dict__["__mro__"].__get__(kind):
        function = type.__dict__["__dict__"].__get__(base).get("__init__")
        for _ in range(_LAYERS):
            if type(function) is not types.FunctionType:
                break
            codes.append(function.__code__)
            function = function.__dict__.get("__wrapped__")
    return codes


def frame_location(frame: Any) -> CodeLocation:
    """Return file, line and function of a frame."""
    return frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_name


def _origin_of(name: str) -> int:
    origin = _files.origins.get(name)
    if origin is None:
        if len(_files.origins) > MAX_FILES:
            _files.origins.clear()
        origin = _files.origins[name] = _classify(name)
    return origin


def _classify(name: str) -> int:
    if (
        name.startswith((OURS, PASSED_OVER))
        or "/site-packages/torch/" in name
        or "/dist-packages/torch/" in name
    ):
        return _TORCHS
    torch = sys.modules.get("torch")
    path = getattr(torch, "__file__", None)
    if path is not None and name.startswith(os.path.dirname(path) + os.sep):
        return _TORCHS
    if name.startswith(("<frozen", _LIBRARY)) or "-packages/" in name or name.endswith(_PUBLIC):
        return _LIBRARYS
    return _USERS
