"""Write what edits found and what they set: a FACT of noun "edit" for each, counted."""

from __future__ import annotations

from typing import Any, Callable

from ... import patching, recorder
from ...log import parentage
from ...process_state import keep

_PLAIN = (bool, int, float, str, type(None))


class _EditCounter:
    """One edit, as it is reported."""

    __slots__ = ("__weakref__", "due", "times", "values")

    def __init__(self, number: int, target: str) -> None:
        self.times, self.due = 0, 0
        self.values: dict[str, Any] = {"edit": number, "target": target, "old": None, "new": None}


class _Edits:
    """The edits of this process, by number."""

    def __init__(self) -> None:
        self.counters: dict[int, _EditCounter] = {}
        self.looks: dict[int, Callable[[], None]] = {}  # at what has not been written yet
        self.refusals: dict[int, str] = {}  # the first reason
        self.are_watched = False

    def fork(self) -> None:
        """Write again what is true of the child as well: it writes a log of its own.

        What a training's process has from its parent was set and made there. A worker counts from
        0.
        """
        for number, why in self.refusals.items():
            recorder.report_unobserved(f"edit {number}", why)
        for number, edit in list(self.counters.items()):
            child_edit = self.counters[number] = _EditCounter(number, edit.values["target"])
            if parentage.lineage.inherited is None:  # it was not forked to be a worker
                child_edit.times, child_edit.values = edit.times, dict(edit.values)


_edits = keep(_Edits())


def register_edit(number: int, target: str) -> None:
    """Write that an edit waits for what it is about: 0 times so far. Once is enough."""
    _watch()
    if number not in _edits.counters:
        _edits.counters[number] = _EditCounter(number, target)
        _write(_edits.counters[number])


def on_finish(number: int, look: Callable[[], None]) -> None:
    """Call ``look()`` before the process ends: it reports what was counted elsewhere."""
    _edits.looks[number] = look


def record_revert(number: int) -> None:
    """Write how often an edit took effect until it was reverted; it may be applied again."""
    _edits.looks.pop(number, None)
    _edits.refusals.pop(number, None)
    edit = _edits.counters.pop(number, None)
    if edit is not None:
        _write(edit)


def record_effect(number: int, target: str, old: Any, new: Any, times: int = 1) -> None:
    """Record that an edit took effect: what it found (the first time) and what it set.

    Written with the next flush; from then on at 2, 4, 8, … times, and when the recorder flushes
    at a step edge. Safe when the recorder is not started, and from any thread.
    """
    edit = _edits.counters.get(number)
    if edit is None:
        edit = _edits.counters[number] = _EditCounter(number, target)
    if not edit.times:
        edit.values.update(old=plain(old), new=plain(new))
    edit.times += times
    if edit.times >= edit.due:
        edit.due = 2 * edit.times
        _write(edit)


def record_refusal(number: int, target: str, why: str) -> None:
    """Write down that an edit could not take effect: a trial with it counts for nothing.

    Of each edit the first reason is kept.
    """
    _watch()
    why = _edits.refusals.setdefault(number, f"{target}: {why}")
    recorder.report_unobserved(f"edit {number}", why)


@patching.guard("edit")
def finish() -> None:
    """Write the counts as they are, now that this process is about to end."""
    for look in list(_edits.looks.values()):
        look()
    _write_all(0, 0, 0)


def times(number: int) -> int:
    """Return how often an edit took effect in this process."""
    edit = _edits.counters.get(number)
    return 0 if edit is None else edit.times


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it; what is no number or text by the name of its class."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    kind = value if hasattr(value, "__qualname__") else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def _write(edit: _EditCounter) -> None:
    recorder.fact("edit", edit, {**edit.values, "times": edit.times})


def _write_all(_number: int, _start: int, _end: int) -> None:
    """Write the counts as they are now (at step edges, seldom)."""
    for edit in list(_edits.counters.values()):
        _write(edit)


def _watch() -> None:
    """Write exact counts at step edges."""
    if not _edits.are_watched:
        _edits.are_watched = True
        recorder.on_edge(_write_all, seldom=True)
        recorder.on_stop(_on_stop)


def _on_stop() -> None:
    _edits.are_watched = False
