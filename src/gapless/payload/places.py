"""Find the line of the user's that a call came from."""

from __future__ import annotations

import functools
import os
import sys
import types
from typing import Any

from .tracebacks import OURS, PASSED_OVER

Place = tuple[str, int, str]  # file, line, function

MOST = 20_000  # files that are remembered; code can be made from text all the time
_LAYERS = 8  # decorators around a function
_USERS, _LIBRARYS, _TORCHS = range(3)
_LIBRARY = os.path.dirname(os.__file__) + os.sep
_PUBLIC = os.path.join(os.sep, "gapless", "__init__.py")  # gapless.step(), wherever it lies
_whose: dict[str, int] = {}  # by file; scripts have few


def users_line(depth: int = 0) -> Place | None:
    """Give file, line and function of the innermost frame that is the user's.

    That is neither ours, nor torch's, nor of the standard library or a site-packages folder. None
    such: the innermost that is neither ours nor torch's. ``depth`` frames are left out first.
    """
    frame = users_frame(depth + 1)
    return None if frame is None else place(frame)


def users_frame(depth: int = 0) -> Any:
    """Give the frame that ``users_line`` tells the line of."""
    return _innermost(sys._getframe(depth + 1))


def of_frame(frame: Any) -> Place | None:
    """Give the line that ``users_line`` would tell if it was called in a frame."""
    innermost = _innermost(frame)
    return None if innermost is None else place(innermost)


def of_users_frame(frame: Any) -> Place | None:
    """Give the innermost line of the user's own in a frame, or around it; None: there is none."""
    innermost = _innermost(frame)
    return place(innermost) if innermost is not None and is_users(innermost) else None


def is_users(frame: Any) -> bool:
    """Tell whether a frame is of the user's own code."""
    return _whose_file(frame.f_code.co_filename) == _USERS


def _innermost(frame: Any) -> Any:
    second: Any = None
    while frame is not None:
        whose = _whose_file(frame.f_code.co_filename)
        if whose == _USERS:
            return frame
        if whose == _LIBRARYS and second is None:
            second = frame
        frame = frame.f_back
    return second


def of_function(function: Any) -> Place | None:
    """Give where a function begins, if it is the user's; of a method, a partial, a callable too.

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
    if code is None or _whose_file(code.co_filename) != _USERS:
        return None
    return code.co_filename, code.co_firstlineno, code.co_name


def of_class(kind: type, name: str) -> Any:
    """Give what a class, or one that it is made of, calls so; None: none does."""
    for one in type.__dict__["__mro__"].__get__(kind):
        if name in type.__dict__["__dict__"].__get__(one):
            return type.__dict__["__dict__"].__get__(one)[name]
    return None


def callers_is_torch(depth: int = 0) -> bool:
    """Tell whether the innermost frame that is not ours is torch's own."""
    frame: Any = sys._getframe(depth + 1)
    while frame is not None and frame.f_code.co_filename.startswith((OURS, PASSED_OVER)):
        frame = frame.f_back
    return frame is not None and _whose_file(frame.f_code.co_filename) == _TORCHS


def by_library(thing: object) -> bool:
    """Tell whether a library, and not the user's own code, makes a thing that is being made.

    The ``__init__`` of a class that a library derived from torch's is passed over. The names inside
    functions are left alone: to read them would keep what they name alive.
    """
    begun = _beginnings(type(thing))
    frame: Any = sys._getframe(1)
    while frame is not None:
        whose = _whose_file(frame.f_code.co_filename)
        if whose != _TORCHS and frame.f_code not in begun:
            return whose == _LIBRARYS
        frame = frame.f_back
    return False


def _beginnings(kind: type) -> list[Any]:
    """Give the code of each ``__init__`` of a class and those it is made of, decorators' too."""
    codes: list[Any] = []
    for one in type.__dict__["__mro__"].__get__(kind):
        function = type.__dict__["__dict__"].__get__(one).get("__init__")
        for _ in range(_LAYERS):
            if type(function) is not types.FunctionType:
                break
            codes.append(function.__code__)
            function = function.__dict__.get("__wrapped__")
    return codes


def place(frame: Any) -> Place:
    """Give file, line and function of a frame."""
    return frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_name


def _whose_file(name: str) -> int:
    whose = _whose.get(name)
    if whose is None:
        if len(_whose) > MOST:
            _whose.clear()
        whose = _whose[name] = _classify(name)
    return whose


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
