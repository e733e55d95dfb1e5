"""Apply edits to a training while it starts, and revert them; its source is untouched.

Edits come as JSON objects (``gapless.model.edit``) in ``GAPLESS_OPTIONS``. Each states what it
needs; what cannot be applied is written down ("edit" and its number, why), and a trial counts for
nothing then. What it found and what it set is a FACT of noun "edit": {"edit": number, "target",
"old", "new", "times"}, exact when a process ends. Forked and spawned workers of a loader inherit
the overlay.
"""

from __future__ import annotations

import importlib
from typing import Any, Callable

from ..process_state import keep_fields
from . import arguments, settings, skips
from .patch import edit_counters

_overlay = keep_fields(undos=[])  # of each edit that was applied: a child has them, too


def apply(edits: Any) -> None:
    """Apply the edits, each as soon as what it is about is imported. Raises ``ValueError``."""
    for number, edit in enumerate(edits):
        undo = apply_edit(number, edit)
        if undo is not None:
            _overlay.undos.append(undo)


def apply_edit(number: int, edit: Any) -> Any:
    """Apply an edit by its number; return what reverts it, if anything. Raises ``ValueError``."""
    return _interpreter(edit)(number, edit)


def finish() -> None:
    """Write how often each edit took effect: this process is about to end."""
    edit_counters.finish()


def revert() -> None:
    """Revert all edits, the last one first: the same objects are where they were."""
    while _overlay.undos:
        _overlay.undos.pop()()


def _interpreter(edit: Any) -> Callable[[int, Any], Any]:
    """Return what applies an edit of this kind: of its number and itself; it returns the undo."""
    kind = edit.get("kind")
    if kind == "set_argument":
        return arguments.apply
    if kind == "set_global":
        return settings.apply
    if kind == "set_env":
        return _by_launcher
    if kind == "skip":
        return skips.apply
    if kind == "wrap":
        return importlib.import_module(
            f"{__package__}.wraps.{edit['part'].replace('-', '_')}"
        ).apply
    raise ValueError(f"no kind of edit: {kind!r}")


def _by_launcher(_number: int, _edit: Any) -> None:
    """Do nothing: the launcher has set it before this process began."""
