"""Keep what could not be observed, and why, and how often: reported at 1, 2, 4, … times."""

from __future__ import annotations

from typing import Any

from ... import wire
from .. import imports, patching
from . import sink

_entries: dict[str, list[Any]] = {}  # what: [why, count, count that was reported]


def note(topic: str, why: str, count: int = 1) -> None:
    """Note that something could not be observed; the first reason is kept."""
    _entries.setdefault(topic, [why, 0, 0])[1] += count


def news() -> list[tuple[int, dict[str, Any]]]:
    """Return what has to be reported now; of the same (what, why) the highest count holds."""
    _gather()
    frames = []
    for topic, entry in list(_entries.items()):
        why, count, before = entry
        if count >= 2 * before:
            entry[2] = count
            frames.append((wire.UNOBSERVED, {"what": topic, "why": why, "count": count}))
    return frames


def forget() -> None:
    """Begin anew."""
    _entries.clear()
    patching.notes.clear()


def _gather() -> None:
    for notes in (patching.notes, imports.failed):
        while notes:
            topic, why = notes.pop()
            note(topic, why if isinstance(why, str) else repr(why))
    if sink.lost:
        note("records", f"not written: {sink.why_lost}", sink.lost)
        sink.lost = 0
