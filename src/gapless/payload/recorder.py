"""Note what happens, in memory, and write it to the spool now and then.

Every function may be called from any thread
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
from .process_state import STATE, keep

EVERY_NS = 100_000_000  # a flush is due when the last one is older
FIRST_EDGES = 64  # after all of which there is a seldom look
MAX_UNFLUSHED_MARKS = (64 << 10) // wire.MARK.size  # or when so many marks wait
MAX_WAITING = 1 << 17  # marks that wait in a process that never flushes; the oldest go
ACTIVE = frozenset((wire.STEP, wire.NEXT, wire.ITER, wire.BACKWARD, wire.FORWARD, wire.USER_STEP))

now = time.monotonic_ns


class _Recording:
    """What waits to be written, and what waits for steps of this process."""

    def __init__(self) -> None:
        self.marks: deque[tuple[int, int, int, int, int, int, int]] = deque(maxlen=MAX_WAITING)
        self.batches: deque[tuple] = deque(maxlen=MAX_WAITING)
        self.texts: deque[tuple[int, dict[str, Any]]] = deque(maxlen=MAX_WAITING)
        self.edge_actions: list[tuple[Any, Callable[[int, int, int], None]]] = []  # with its guard
        self.seldom_actions: list[tuple[Any, Callable[[int, int, int], None]]] = []
        self.first_actions: list[Callable[[], None]] = []  # when it is known to step or load
        self.stop_actions: list[Callable[[], None]] = []
        self.options: dict[str, Any] | None = None
        self.look_ns = 0  # when the next seldom look at an edge is due
        self.edge: tuple[int, int] | None = None  # the last one: its number, and when it ended
        self.has_ended = False
        self.fork()
        self.begin()

    def fork(self) -> None:
        """Leave what waits to the parent; there is no thread but this one."""
        self.local = _thread._local()  # .id: of the thread
        self.flushing = _thread.allocate_lock()
        self.marks.clear()
        self.batches.clear()
        self.texts.clear()

    def begin(self) -> None:
        """Have nothing stepped so far."""
        self.has_started, self.flushed_ns = False, 0
        self.thread = -1  # that steps
        self.ident: int | None = None  # likewise, as Python has it


_recording = keep(_Recording())


def mark(  # noqa: PLR0913, PLR0917 - the fields of a mark
    kind: int, start: int, end: int, subject: int = wire.NOBODY, value: int = -1, flags: int = 0
) -> None:
    """Note that something of ``kind`` (``wire``) took place on this thread."""
    try:
        thread = _recording.local.id
    except AttributeError:
        thread = _recording.local.id = _thread.get_native_id()
    _recording.marks.append((kind, flags, subject, thread, start, end, value))


def batch(values: tuple) -> None:
    """Note one fetch: the values of ``wire.BATCH_FIELDS``. In a worker: flush if it is due."""
    _recording.batches.append(values)
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
    _recording.texts.append((kind, value))


def options() -> dict[str, Any]:
    """Return what the command line asked for (``GAPLESS_OPTIONS``)."""
    if _recording.options is None:
        try:
            _recording.options = dict(json.loads(os.environ.get(wire.OPTIONS) or "{}"))
        except (ValueError, TypeError):
            _recording.options = {}
    return _recording.options


def is_worker() -> bool:
    """Return whether this process is a worker of a DataLoader."""
    return process.worker() is not None


def own_loader() -> int:
    """Return the id, in the parent, of the loader that this worker belongs to; −1: unknown."""
    inherited = parentage.lineage.inherited
    return -1 if inherited is None else inherited[0]


def on_edge(action: Callable[[int, int, int], None], *, seldom: bool = False) -> None:
    """Call ``action(step_number, start, end)`` after each step edge, on the thread that steps.

    ``step_number``: calls of the anchor before. ``seldom``: ten times a second after the first.
    """
    if not hasattr(action, "guarded"):
        action = patching.guard(f"edge: {action.__module__}")(action)
    guarded_action: Any = action
    actions = _recording.seldom_actions if seldom else _recording.edge_actions
    actions.append((guarded_action.guarded, guarded_action.__wrapped__))


def on_first(action: Callable[[], None]) -> None:
    """Call ``action()`` once, when this process is known to step or load (again in a child)."""
    _recording.first_actions.append(patching.guard(f"first: {action.__module__}")(action))


def on_stop(action: Callable[[], None]) -> None:
    """Call ``action()`` when the recorder leaves this process, to undo what a hook did."""
    _recording.stop_actions.append(patching.guard(f"stop: {action.__module__}")(action))


def edge(number: int, start: int, end: int) -> None:
    """Do what waits for step edges (for ``stepping``); this is the thread that steps."""
    state = _recording
    if state.ident != _thread.get_ident():
        state.thread, state.ident = _thread.get_native_id(), _thread.get_ident()
    state.edge = number, end
    due = end >= state.look_ns or number < FIRST_EDGES
    actions = state.edge_actions
    for guard, action in (*actions, *state.seldom_actions) if due else actions:
        if guard.on:
            try:  # here, and not in a function around each: it is for every step
                action(number, start, end)
            except BaseException as error:
                if guard.failed(error):
                    raise
    state.look_ns = end + EVERY_NS if due else state.look_ns


def last_edge() -> tuple[int, int] | None:
    """Return the number of the last step edge and when it ended; ``None``: there was none."""
    return _recording.edge


def stepping_thread() -> tuple[int | None, int | None]:
    """Return ``threading``'s ident of the thread that steps and its native one, if it is known."""
    return _recording.ident, _recording.thread


def flush_when_due(now_ns: int | None = None) -> None:
    """Flush if the last flush is 0.1 s old or 64 KiB wait (``now_ns``: the time, if known)."""
    if (now_ns or now()) - _recording.flushed_ns >= EVERY_NS or len(
        _recording.marks
    ) >= MAX_UNFLUSHED_MARKS:
        flush()


def flush(*, last: bool = False) -> None:
    """Write what waits, by one ``os.write``. Does nothing where nothing steps or loads.

    ``last``: also what would wait for more of its like.
    """
    if _recording.has_ended or not _recording.flushing.acquire(blocking=False):
        return
    try:
        start = time.monotonic_ns()
        _recording.flushed_ns = start
        if _write_waiting(last):
            mark(wire.OBSERVER, start, time.monotonic_ns(), value=wire.OBSERVER_FLUSH)
    except Exception as error:
        if tracebacks.from_a_signal_handler(error):
            raise
        report_unobserved("records", repr(error))
    finally:
        _recording.flushing.release()


def begin() -> bool:
    """Open this process's log, if it is not open: it steps or loads. Return whether it is open."""
    if sink.is_open():
        return True
    folder = os.environ.get(wire.SPOOL)
    stem = sink.claim(folder, process.stems()) if folder else None
    if stem is None:
        return False
    parentage.lineage.stem = stem
    thinning.begin(process.workers(), now(), options().get("allowance"), sink.log.before)
    sink.append([wire.text_frame(wire.PROCESS, process.description())])
    if not _recording.has_started:
        _recording.has_started = True
        for action in _recording.first_actions:
            action()
    return True


def end(exit_kind: str) -> None:
    """Write everything and that the process ended in good order; nothing is written after it."""
    if _recording.has_ended:
        return
    flush(last=True)
    _recording.has_ended = True
    if _recording.has_started and sink.is_open():
        sink.append([wire.text_frame(wire.END, {"ns": now(), "how": exit_kind})])
    sink.close()


def stop_everything(exit_kind: str) -> None:
    """Undo every hook, put everything back and end."""
    for action in reversed(_recording.stop_actions):
        action()
    end(exit_kind)
    patching.restore_all()
    state = _recording
    for actions in (
        state.edge_actions,
        state.seldom_actions,
        state.first_actions,
        state.stop_actions,
    ):
        actions.clear()
    for queue in (state.marks, state.batches, state.texts):
        queue.clear()
    unobserved.forget()


def resume() -> None:
    """Record again after ``stop_everything`` (a second ``gapless.record()``)."""
    _recording.options, _recording.has_ended = None, False
    patching.resume()
    STATE.begin()


def _write_waiting(last: bool) -> bool:  # noqa: FBT001
    if not (
        _recording.has_started
        or _recording.batches
        or any(record[0] in ACTIVE for record in list(_recording.marks))
    ):
        return False
    if not begin():
        _drop()
        return False
    texts: list[tuple[int, dict[str, Any]]] = [*unobserved.news(), *_take_all(_recording.texts)]
    marks, batches = _take_all(_recording.marks), _take_all(_recording.batches)
    main = _recording.thread
    if main != -1:
        flag = wire.NOT_MAIN
        marks = [row if row[3] == main else (row[0], row[1] | flag, *row[2:]) for row in marks]
    text_frames = [wire.text_frame(kind, value) for kind, value in texts]
    frames = thinning.frames(text_frames, marks, batches, now(), last=last)
    went = sink.append(frames) if frames else 0
    _recording.texts.extendleft(
        reversed(texts[went:])
    )  # what is true is written again when there is room
    return bool(went or marks or batches)


def _take_all(queue: deque[Any]) -> list[Any]:
    return [queue.popleft() for _ in range(len(queue))]


def _drop() -> None:
    """Drop what waits, since there is no log to write it to; things and facts are kept."""
    sink.log.lost += len(_recording.marks) + len(_recording.batches)
    _recording.marks.clear()
    _recording.batches.clear()
