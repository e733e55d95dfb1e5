"""Calls of ``open`` and ``os.read`` are timed, but only while a fetch is looked at in detail.

For that time what ``builtins`` and ``io`` call ``open`` stands for another object, put back when
the last such fetch of the process ends. A file opened for "rb" is the ``io.BufferedReader`` that
it always is; the raw file below it times its reads while its thread is in such a fetch.
"""

from __future__ import annotations

import builtins
import io
import os
import sys
from _thread import allocate_lock, get_ident
from typing import Any, Callable

from ..process_state import keep
from .stopwatch import READ, FunctionProxy, Stopwatch, invisible, running, time_function

NATIVE = io.open
MAX_PROXIES = 16


class _Reads:
    """What stands for the functions that read, and who is told of the files that are opened."""

    def __init__(self) -> None:
        self.lock = allocate_lock()
        # Owner, name, what was there, what is ours.
        self.swapped: list[tuple[Any, str, Any, Any]] = []
        self.proxies: dict[int, tuple[Any, Any]] = {}  # by id of a function: it, what stands for it
        self.note_open: Callable[[Any, Any], Any] | None = None  # (path, mode)

    def fork(self) -> None:
        """Time nothing in the child of a fork, whose only thread may be within a fetch."""
        self.lock = allocate_lock()
        _put_back()


files = keep(_Reads())


def note_open(path: Any, mode: Any) -> None:
    """Note a file that a fetch opens."""
    if files.note_open is not None:
        files.note_open(path, mode)


class FileIO(io.FileIO):
    """A raw file whose reads are timed while its thread is in a fetch looked at in detail."""

    __module__ = "_io"

    def readinto(self, buffer: Any) -> Any:
        """Read into the buffer."""
        return _read(io.FileIO.readinto, self, buffer)

    def readall(self) -> Any:
        """Read what is left."""
        return _read(io.FileIO.readall, self)

    def read(self, *args: Any) -> Any:
        """Read so many bytes."""
        return _read(io.FileIO.read, self, *args)


def _read(function: Callable[..., Any], *args: Any) -> Any:
    watch = running.get(get_ident()) if running else None
    if watch is None or watch.stage == READ:
        return function(*args)
    before = watch.enter(READ)
    try:
        return function(*args)
    finally:
        watch.enter(before)


class _TimedOpen(FunctionProxy):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        watch = running.get(get_ident()) if running else None
        before = -1 if watch is None else watch.enter(READ)
        try:
            if before < 0:
                return self.__wrapped__(*args, **kwargs)
            path, mode = _path_and_mode(*args, **kwargs)
            note_open(path, mode)
            if mode == "rb" and self.__wrapped__ is NATIVE and _is_plain(args, kwargs):
                raw = FileIO(path if isinstance(path, int) else os.fspath(path), "rb")
                return io.BufferedReader(raw, _buffer(raw))
            return self.__wrapped__(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
            raise
        finally:
            if before >= 0:
                watch.enter(before)  # type: ignore[union-attr]


invisible(_TimedOpen.__call__)  # type: ignore[arg-type]


def _path_and_mode(file: Any = None, mode: Any = "r", *_: Any, **__: Any) -> tuple[Any, Any]:
    return file, mode


def _is_plain(args: tuple, kwargs: dict[str, Any]) -> bool:
    """Return whether all but a path and a mode is as it is by default, which pathlib spells out."""
    named = (value for name, value in kwargs.items() if name not in {"file", "mode"})
    return all(value is None or value == -1 for value in (*args[2:], *named))


def _buffer(raw: Any) -> int:
    """Return the size of the buffer that ``open`` itself would take."""
    size = raw._blksize
    if size <= 1:
        return io.DEFAULT_BUFFER_SIZE
    if sys.version_info >= (3, 14):
        return max(min(size, 8 << 20), io.DEFAULT_BUFFER_SIZE)
    return size


def begin(watch: Stopwatch) -> None:
    """Time reads of this thread from now on."""
    with files.lock:
        if not files.swapped:
            _swap()
        running[get_ident()] = watch


def finish() -> None:
    """Time reads of this thread no more; put back what stood there if no other thread is timed."""
    with files.lock:
        running.pop(get_ident(), None)
        if not running:
            _put_back()


def _swap() -> None:
    for owner, name in ((builtins, "open"), (io, "open"), (os, "read"), (os, "pread")):
        original = getattr(owner, name, None)
        if original is None:
            continue
        if isinstance(
            original, FunctionProxy
        ):  # ours, from when somebody replaced it and put it back
            original = original.__wrapped__
        proxy = _find_proxy(original, name)
        files.swapped.append((owner, name, original, proxy))
        setattr(owner, name, proxy)


def _find_proxy(original: Any, name: str) -> Any:
    pair = files.proxies.get(id(original))
    if pair is None or pair[0] is not original:
        if len(files.proxies) > MAX_PROXIES:  # somebody puts another one there all the time
            files.proxies.clear()
        pair = files.proxies[id(original)] = (
            original,
            _TimedOpen(original) if name == "open" else time_function(original, READ),
        )
    return pair[1]


def _put_back() -> None:
    while files.swapped:
        owner, name, original, proxy = files.swapped.pop()
        if getattr(owner, name, None) is proxy:  # else somebody has replaced it meanwhile
            setattr(owner, name, original)
