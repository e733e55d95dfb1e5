"""Keep what could not be observed, and why, and how often: reported at 1, 2, 4, … times."""

from __future__ import annotations

from typing import Any

from ... import wire
from ..process_state import STATE, keep
from . import sink


class _Unobserved:
    """What could not be observed in this process."""

    def __init__(self) -> None:
        self.entries: dict[str, list[Any]] = {}  # what: [why, count, count that was reported]

    def fork(self) -> None:
        """Leave it to the parent."""
        self.entries.clear()


_unobserved = keep(_Unobserved())


def note(topic: str, why: str, count: int = 1) -> None:
    """Note that something could not be observed; the first reason is kept."""
    _unobserved.entries.setdefault(topic, [why, 0, 0])[1] += count


def news() -> list[tuple[int, dict[str, Any]]]:
    """Return what has to be reported now; of the same (what, why) the highest count holds."""
    _gather()
    frames = []
    for topic, entry in list(_unobserved.entries.items()):
        why, count, before = entry
        if count >= 2 * before:
            entry[2] = count
            frames.append((wire.UNOBSERVED, {"what": topic, "why": why, "count": count}))
    return frames


def forget() -> None:
    """Begin anew."""
    _unobserved.entries.clear()
    STATE.notes.clear()


def _gather() -> None:
    while STATE.notes:
        note(*STATE.notes.pop())
    if sink.log.lost:
        note("records", f"not written: {sink.log.why_lost}", sink.log.lost)
        sink.log.lost = 0
