"""Note what happens, in memory, and write it to the spool now and then.

One per process; module functions over module state. Every function may be called from any thread
and raises nothing. Nothing is written by a process that neither steps nor loads.
"""

from __future__ import annotations

import _thread
import json
import os
import time
from collections import deque
from typing import Any, Callable

from .. import wire
from . import identities, patching, tracebacks
from .log import parentage, process, sink, thinning, unobserved

EVERY_NS = 100_000_000  # a flush is due when the last one is older
FIRST_EDGES = 64  # after all of which there is a seldom look
MAX_UNFLUSHED_MARKS = (64 << 10) // wire.MARK.size  # or when so many marks wait
MAX_WAITING = 1 << 17  # marks that wait in a process that never flushes; the oldest go
ACTIVE = frozenset((wire.STEP, wire.NEXT, wire.ITER, wire.BACKWARD, wire.FORWARD, wire.USER_STEP))

now = time.monotonic_ns

_marks: deque[tuple[int, int, int, int, int, int, int]] = deque(maxlen=MAX_WAITING)
_batches: deque[tuple] = deque(maxlen=MAX_WAITING)
_texts: deque[tuple[int, dict[str, Any]]] = deque(maxlen=MAX_WAITING)
_local = _thread._local()
_flushing = _thread.allocate_lock()
_edges: list[tuple[Any, Callable[[int, int, int], None]]] = []  # (its guard, it)
_seldom: list[tuple[Any, Callable[[int, int, int], None]]] = []
_stops: list[Callable[[], None]] = []
_firsts: list[Callable[[], None]] = []  # when this process is first known to step or load
_children: list[Callable[[], None]] = []
_state: dict[str, Any] = {
    "started": False,
    "ended": False,
    "flushed": 0,
    "look": 0,  # when the next seldom look at an edge is due
    "edge": None,  # the last one: its number, and when it ended
    "thread": -1,
    "ident": None,
}
_options: dict[str, Any] | None = None


def mark(  # noqa: PLR0913, PLR0917 - the fields of a mark
    kind: int, start: int, end: int, subject: int = wire.NOBODY, value: int = -1, flags: int = 0
) -> None:
    """Note that something of ``kind`` (``wire``) took place on this thread."""
    try:
        thread = _local.id
    except AttributeError:
        thread = _local.id = _thread.get_native_id()
    _marks.append((kind, flags, subject, thread, start, end, value))


def batch(values: tuple) -> None:
    """Note one fetch: the values of ``wire.BATCH_FIELDS``. In a worker: flush if it is due."""
    _batches.append(values)
    if is_worker():
        flush_when_due()


def fact(noun: str, entity: object, values: dict[str, Any], location: tuple | None = None) -> int:
    """Return the id of ``entity`` among those of its noun, and write what is known of it.

    It is written once, and again when ``values`` have changed. ``location``: where the user made
    it.
    """
    number, changed = identities.register_entity(noun, entity, values, location)
    if changed:
        write(wire.FACT, identities.description(noun, number))
    return number


def identify(noun: str, entity: object) -> int | None:
    """Return the id of ``entity`` if it is known."""
    return identities.find(noun, entity)


def has_any(noun: str) -> bool:
    """Return whether anything of this noun has been written."""
    return identities.has_any(noun)


def alias(noun: str, entity: object, number: int) -> None:
    """Let ``entity`` (an iterator) go by the id of another (its loader)."""
    identities.alias(noun, entity, number)


def site(location: tuple | None) -> int:
    """Return the id of a line of the user's: (file, line, function); NOBODY for None."""
    if location is None:
        return wire.NOBODY
    number, changed = identities.register_line(location)
    if changed:
        write(wire.FACT, identities.description("site", number))
    return number


def report_unobserved(topic: str, why: str) -> None:
    """Write down, once, that something could not be observed, and count how often."""
    unobserved.note(topic, why)


def write(kind: int, value: dict[str, Any]) -> None:
    """Queue a frame of JSON."""
    _texts.append((kind, value))


def options() -> dict[str, Any]:
    """Return what the command line asked for (``GAPLESS_OPTIONS``)."""
    global _options
    if _options is None:
        try:
            _options = dict(json.loads(os.environ.get(wire.OPTIONS) or "{}"))
        except (ValueError, TypeError):
            _options = {}
    return _options


def is_worker() -> bool:
    """Return whether this process is a worker of a DataLoader."""
    return process.worker() is not None


def own_loader() -> int:
    """Return the id, in the parent, of the loader that this worker belongs to; −1: unknown."""
    return -1 if parentage.inherited is None else parentage.inherited[0]


def on_edge(action: Callable[[int, int, int], None], *, seldom: bool = False) -> None:
    """Call ``action(step_number, start, end)`` after each step edge, on the thread that steps.

    ``step_number``: calls of the anchor before. ``seldom``: ten times a second after the first.
    """
    if not hasattr(action, "guarded"):
        action = patching.guard(f"edge: {action.__module__}")(action)
    guarded_action: Any = action
    (_seldom if seldom else _edges).append((guarded_action.guarded, guarded_action.__wrapped__))


def on_first(action: Callable[[], None]) -> None:
    """Call ``action()`` once, when this process is known to step or load (again in a child)."""
    _firsts.append(patching.guard(f"first: {action.__module__}")(action))


def on_stop(action: Callable[[], None]) -> None:
    """Call ``action()`` when the recorder leaves this process, to undo what a hook did."""
    _stops.append(patching.guard(f"stop: {action.__module__}")(action))


def on_child(action: Callable[[], None]) -> None:
    """Call ``action()`` in each forked child, to forget what is the parent's."""
    _children.append(patching.guard(f"child: {action.__module__}")(action))


def edge(number: int, start: int, end: int) -> None:
    """Do what waits for step edges (for ``stepping``); this is the thread that steps."""
    if _state["ident"] != _thread.get_ident():
        _state.update(thread=_thread.get_native_id(), ident=_thread.get_ident())
    _state["edge"] = number, end
    due = end >= _state["look"] or number < FIRST_EDGES
    for guard, action in (*_edges, *_seldom) if due else _edges:
        if guard.on:
            try:  # here, and not in a function around each: it is for every step
                action(number, start, end)
            except BaseException as error:
                if guard.failed(error):
                    raise
    _state["look"] = end + EVERY_NS if due else _state["look"]


def last_edge() -> tuple[int, int] | None:
    """Return the number of the last step edge and when it ended; ``None``: there was none."""
    return _state["edge"]


def stepping_thread() -> tuple[int | None, int | None]:
    """Return ``threading``'s ident of the thread that steps and its native one, if it is known."""
    return _state["ident"], _state["thread"]


def flush_when_due(now_ns: int | None = None) -> None:
    """Flush if the last flush is 0.1 s old or 64 KiB wait (``now_ns``: the time, if known)."""
    if (now_ns or now()) - _state["flushed"] >= EVERY_NS or len(_marks) >= MAX_UNFLUSHED_MARKS:
        flush()


def flush(*, last: bool = False) -> None:
    """Write what waits, by one ``os.write``. Does nothing where nothing steps or loads.

    ``last``: also what would wait for more of its like.
    """
    if _state["ended"] or not _flushing.acquire(blocking=False):
        return
    try:
        start = time.monotonic_ns()
        _state["flushed"] = start
        if _write_waiting(last):
            mark(wire.OBSERVER, start, time.monotonic_ns(), value=wire.OBSERVER_FLUSH)
    except Exception as error:
        if tracebacks.from_a_signal_handler(error):
            raise
        report_unobserved("records", repr(error))
    finally:
        _flushing.release()


def begin() -> bool:
    """Open this process's log, if it is not open: it steps or loads. Return whether it is open."""
    if sink.is_open():
        return True
    folder = os.environ.get(wire.SPOOL)
    stem = sink.claim(folder, process.stems()) if folder else None
    if stem is None:
        return False
    parentage.stem = stem
    thinning.begin(process.workers(), now(), options().get("allowance"), sink.before)
    sink.append([wire.text_frame(wire.PROCESS, process.description())])
    if not _state["started"]:
        _state["started"] = True
        for action in _firsts:
            action()
    return True


def end(exit_kind: str) -> None:
    """Write everything and that the process ended in good order; nothing is written after it."""
    if _state["ended"]:
        return
    flush(last=True)
    _state["ended"] = True
    if _state["started"] and sink.is_open():
        sink.append([wire.text_frame(wire.END, {"ns": now(), "how": exit_kind})])
    sink.close()


def stop_everything(exit_kind: str) -> None:
    """Undo every hook, put everything back and end."""
    for action in reversed(_stops):
        action()
    end(exit_kind)
    patching.restore_all()
    for queue in (_edges, _seldom, _firsts, _stops, _children, _marks, _batches, _texts):
        queue.clear()
    unobserved.forget()


def handle_fork() -> None:
    """Begin anew in a forked child: empty buffers, another log."""
    global _flushing, _local
    _flushing, _local = _thread.allocate_lock(), _thread._local()
    for queue in (_marks, _batches, _texts):
        queue.clear()
    unobserved.forget()
    _state.update(started=False, flushed=0, thread=-1, ident=None)
    sink.forget()
    thinning.forget()
    identities.handle_fork()
    process.handle_fork()
    for action in _children:
        action()


def resume() -> None:
    """Record again after ``stop_everything`` (a second ``gapless.record()``)."""
    global _options
    _options = None
    patching.resume()
    _state.update(started=False, ended=False, flushed=0, thread=-1, ident=None)
    identities.handle_fork()


def _write_waiting(last: bool) -> bool:  # noqa: FBT001
    if not (_state["started"] or _batches or any(record[0] in ACTIVE for record in list(_marks))):
        return False
    if not begin():
        _drop()
        return False
    texts: list[tuple[int, dict[str, Any]]] = [*unobserved.news(), *_take_all(_texts)]
    marks, batches = _take_all(_marks), _take_all(_batches)
    main = _state["thread"]
    if main != -1:
        flag = wire.NOT_MAIN
        marks = [row if row[3] == main else (row[0], row[1] | flag, *row[2:]) for row in marks]
    text_frames = [wire.text_frame(kind, value) for kind, value in texts]
    frames = thinning.frames(text_frames, marks, batches, now(), last=last)
    went = sink.append(frames) if frames else 0
    _texts.extendleft(reversed(texts[went:]))  # what is true is written again when there is room
    return bool(went or marks or batches)


def _take_all(queue: deque[Any]) -> list[Any]:
    return [queue.popleft() for _ in range(len(queue))]


def _drop() -> None:
    """Drop what waits, since there is no log to write it to; things and facts are kept."""
    sink.lost += len(_marks) + len(_batches)
    _marks.clear()
    _batches.clear()
