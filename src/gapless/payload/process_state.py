"""All that the recorder keeps in this process, in one object: ``STATE``; modules add parts to it.

A part says itself what becomes of it: ``begin()`` is called when recording begins again and in a
forked child, ``fork()`` in the child alone, ``before_fork()`` and ``after_fork()`` in the parent.
What has neither of the first two a child has as its parent left it.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from . import tracebacks

if TYPE_CHECKING:
    from collections.abc import Iterable

_Part = TypeVar("_Part")
_MAX_CHARACTERS = 300  # of an error that is written down


class ProcessState:
    """The parts in the order in which they came: each after those that its module builds on."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.notes: list[tuple[str, str]] = []  # (what, why) of ours failed; they are written later
        self.watches_forks = False

    def keep(self, part: _Part) -> _Part:
        """Return a part, which is in this process once."""
        self.parts.append(part)
        return part

    def note(self, topic: str, error: BaseException) -> None:
        """Note that something of ours failed."""
        try:
            why = repr(error)[:_MAX_CHARACTERS]
        except Exception:
            why = type(error).__name__
        self.notes.append((topic, why))

    def watch_forks(self) -> None:
        """Register for forks, once a process: it cannot be undone."""
        if self.watches_forks or not hasattr(os, "register_at_fork"):
            return
        self.watches_forks = True
        os.register_at_fork(
            before=self.before_fork, after_in_parent=self.after_fork, after_in_child=self.fork
        )

    def begin(self) -> None:
        """Begin to record, perhaps again."""
        self._call("begin", self.parts)

    def fork(self) -> None:
        """Begin anew in a forked child, whose only thread this is."""
        self.notes.clear()
        self._call("fork", self.parts)
        self._call("begin", self.parts)

    def before_fork(self) -> None:
        """Prepare for a fork."""
        self._call("before_fork", reversed(self.parts))

    def after_fork(self) -> None:
        """Go on in the parent."""
        self._call("after_fork", self.parts)

    def _call(self, moment: str, parts: Iterable[Any]) -> None:
        for part in parts:
            action = getattr(part, moment, None)
            if action is not None:
                self._attempt(moment, part, action)

    def _attempt(self, moment: str, part: Any, action: Callable[[], None]) -> None:
        """Do what a part does at a moment; what fails in one is no matter of the others."""
        try:
            action()
        except Exception as error:
            if tracebacks.from_a_signal_handler(error):
                raise
            self.note(f"{moment} of {type(part).__module__}", error)


STATE = ProcessState()
keep = STATE.keep


def hold_for_good(value: Any) -> None:
    """Have an object outlive the interpreter: in a child to free it would ask the parent's device.

    A child that ends as scripts do takes its modules apart, with all that they hold.
    """
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def keep_fields(**values: Any) -> Any:
    """Return a part of these fields, which a child has as its parent left it."""
    return keep(SimpleNamespace(**values))
