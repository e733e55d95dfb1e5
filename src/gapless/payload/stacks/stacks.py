"""Look a few times a second at what the training thread (or the worker) is doing in Python.

It begins when torch is looked for: until the process is known to step or load, that is set-up,
counted by itself, and what never steps is looked at ever more rarely.

Each look stands for the time since the one before: on a processor, or off it, by what the thread
waited for. That is true only where a look comes whenever its time has come, whoever holds the GIL
(``gil_switch``): so our thread wakes twice. First some time before the look, to shorten the switch
interval; that wait may end late, where torch lets go of the GIL. Then for the look, at a time that
was chosen before the first (``schedule``).

The thread is none of ``threading``'s: it is in no list of the user's. It ends before each fork and
begins again after it, so that a fork warns of no thread which the user does not have.
"""

from __future__ import annotations

import _thread
import sys
import time
from typing import Any

from ... import wire
from .. import recorder
from ..log import thinning
from ..process_state import keep
from . import (
    blocked,
    counting,
    device_waits,
    entries,
    gil_switch,
    own_threads,
    plain_steps,
    snapshots,
    threads,
)
from .schedule import last_due

HZ = 10.0
# A check of a training sees it for some seconds: 70 looks leave a share of a third open by 11
# points either way, 600 by 4. So the training thread is looked at more often at first, if the looks
# do not keep it from working for more than a hundredth of the time.
FIRST_LOOKS, MAX_LOOKING_SHARE = 1500, 0.01
EARLY_FACTORS = {"setup": 3.0, "training": 6.0}
REPORT_NS = 5_000_000_000  # what was seen is written so long after the start, then ever more rarely
SPACING = 2  # after half of that again, and so on: who is killed then loses a third of the looks
RAREST_NS = {"training": 3_600_000_000_000, "worker": 86_400_000_000_000}
ENDING = "ending"  # the thread of what was seen since a step is late
FIRST = "first"  # that of what was seen before a step had ended, if it was written about before
NEVER_NS = 1 << 62  # set-up is written when it is over
SETUP_PART = 600  # between two looks at set-up, at least so small a part of the time since
# Of them, the most frequent ones are written: a day must not take much of a disk.
MAX_REPORTED = {"setup": 200, "training": 200, "worker": 40}
CROWDED_FACTOR = 4  # times its processor time: so long may a look take where it was preempted
COST_LOOKS = 16  # over about so many the cost of a look is averaged
# Before a look, a third of the pause: the GIL is had within 5 ms, but where C holds it for longer.
READY_S, SWITCH_S = 0.015, 0.0055
LATE_FACTOR, LATE_EDGES = 2, 10  # times the mean step, once so many edges were passed
# Of a generator of our own: the user's is theirs.
_STEP, _ADD, _MASK = 1103515245, 12345, 0x7FFFFFFF


class _Watch:
    """The thread that looks, and what it looks at."""

    def __init__(self) -> None:
        self.thread = own_threads.OwnThread()
        self.role: str | None = None
        self.ident: Any = None  # of the thread that is looked at, and its native one
        self.native: int | None = None
        self.began = self.reported = self.wait_ns = 0
        self.period_s = 1 / HZ
        self.jitter = 1
        self.looking_s = 0.0  # that a look takes, with the GIL, of late
        self.edge: tuple[int, int] | None = None  # the first step edge seen

    def before_fork(self) -> None:
        """End for a fork."""
        _end()

    def after_fork(self) -> None:
        """Begin again after a fork, in the parent."""
        if self.role is not None:
            _begin()

    def fork(self) -> None:
        """Forget the parent's, in a forked child."""
        gil_switch.restore()
        self.thread.forget()
        self.role = self.ident = self.edge = None


_state = keep(_Watch())


def install() -> None:
    """Begin with set-up, go on when this process steps or loads, end when the recorder leaves."""
    recorder.on_first(start)
    recorder.on_stop(stop)
    blocked.prepare()  # here: what our thread would import now, the user's might import, too
    _begin_as("setup")


def start() -> None:
    """Look at this thread from now on, if that is wanted: it steps or loads."""
    if _state.role not in {None, "setup"}:
        return
    _end()
    if recorder.is_worker():  # its set-up is none of the training's
        counting.forget()
        _begin_as("worker")
    else:
        _report(last=True)
        _begin_as("training")


def stop() -> None:
    """End, and queue what was seen."""
    _end()
    _report(last=True)
    _state.role = None


def finish() -> None:
    """Queue what was seen, for the end of the process, and ask the thread to end."""
    if _state.thread.ask_to_end():
        gil_switch.restore()
    _report(last=True)


def wait_for_end() -> None:
    """Wait until the thread has ended, before the interpreter does."""
    _state.thread.wait_for_end(own_threads.EXIT_S)


def _begin_as(role: str) -> None:
    hz = recorder.options().get("stacks_hz", HZ)
    if not hz:
        return
    _state.role = role
    _state.ident, _state.native = _thread.get_ident(), _thread.get_native_id()
    _state.began = _state.reported = time.monotonic_ns()
    _state.wait_ns = NEVER_NS if role == "setup" else REPORT_NS
    _state.period_s, _state.edge = 1.0 / float(hz), None
    plain_steps.forget()
    _begin()


def _begin() -> None:
    try:
        _state.thread.begin(_watch, _state.period_s)
    except RuntimeError as error:
        _state.role = None
        recorder.report_unobserved("stacks", repr(error))


def _end() -> None:
    if _state.thread.ask_to_end():
        _state.thread.wait_for_end(own_threads.FORK_S)


def _watch(alarm: Any, period: float) -> None:
    gil_switch.be_punctual()
    blocked.prepare()
    before = time.monotonic_ns()  # up to then time has been stood for
    looks = 0
    while True:
        pause = _pause_s(period, looks)
        due = before + int(1e9 * pause)
        if _wait_for_stop(alarm, due - int(1e9 * min(READY_S, max(SWITCH_S, pause / 3)))):
            return
        is_setup = _state.role == "setup"
        gil_switch.shorten_interval(gil_switch.SOON_S if is_setup else gil_switch.AT_ONCE_S)
        try:
            ran = _clock()
            ident, native = _find_thread()
            if _wait_for_stop(alarm, due):
                return
            # Before anything else: whoever lost the GIL to us takes it back at the next call.
            snapshot = snapshots.take(ident)
        finally:
            gil_switch.restore()  # at once: else the GIL is soon taken from us
        now, ran_ns, preemptions = (
            time.monotonic_ns(),
            time.thread_time_ns(),
            own_threads.count_preemptions(),
        )
        due = last_due(due, int(1e9 * pause), now)
        _look(due - before, ran, (native, snapshot))
        is_preempted = preemptions is None or preemptions != own_threads.count_preemptions()
        took_ns = time.monotonic_ns() - now if is_preempted else 0
        _count_cost(took_ns, time.thread_time_ns() - ran_ns)
        before = due
        looks += 1
        if now - _state.reported > _state.wait_ns:
            _report_since(now)


def _report_since(now: int) -> None:
    since = (now - _state.began) // SPACING
    _state.wait_ns = min(since, RAREST_NS.get(_state.role or "", 0))
    _report()


def _pause_s(period: float, looks: int) -> float:
    """Return how long to wait for the next look, after so many."""
    role = _state.role
    if looks < FIRST_LOOKS:
        early = period / EARLY_FACTORS.get(role or "", 1.0)
        period = min(period, max(early, _state.looking_s / MAX_LOOKING_SHARE))
    if role == "setup":
        period = max(period, (time.monotonic_ns() - _state.began) / 1e9 / SETUP_PART)
    return period * _jitter()


def _count_cost(looking_ns: int, ran_ns: int) -> None:
    """Follow what a look takes, with the GIL; a single one may have stood still for others.

    Where others take the processors, most of it is waiting for these, which the training does, too.
    ``looking_ns``: 0 where nobody took a processor from it. What it waited then was the GIL, while
    the training went on: that is no cost, or Python would be seen least where it takes most.
    """
    cost_ns = max(ran_ns, looking_ns / CROWDED_FACTOR)
    _state.looking_s += (cost_ns / 1e9 - _state.looking_s) / COST_LOOKS


def _wait_for_stop(alarm: Any, until_ns: int) -> Any:
    """Wait until then; return whether it is to end before."""
    return alarm.acquire(timeout=max(0, until_ns - time.monotonic_ns()) / 1e9)


def _jitter() -> float:
    """Return a factor of 0.5 to 1.5: looks in step with the training would see the same again."""
    _state.jitter = (_state.jitter * _STEP + _ADD) & _MASK
    return 0.5 + _state.jitter / _MASK


def _find_thread() -> tuple[Any, Any]:
    """Return the thread that is looked at: its number, and its native one."""
    ident, native = recorder.stepping_thread()
    return (_state.ident, _state.native) if ident is None else (ident, native)


def _look(elapsed_ns: int, ran: int | None, seen: tuple[Any, snapshots.Snapshot]) -> None:
    """Count a stack for ``elapsed_ns``; ``ran``: the thread's clock a moment before it was seen."""
    native, (ident, instruction, calling, chain) = seen
    if chain is None:
        return
    if _state.role == "training":
        _follow_edges()
        threads.look(sys._current_frames(), ident, native)
        if not plain_steps.counts():
            return
    stack = snapshots.frames_of(chain)
    waits = blocked.waits_for(native, runs=ran is None or _clock() != ran)
    if waits is None and device_waits.may_wait(stack[0][0], instruction) and blocked.runs(native):
        waits = device_waits.DEVICE
    if waits is not None and _has_moved(ident, stack[0][0], instruction):
        waits = None
    frames = entries.leave_entered(stack, instruction, calling)
    counting.add(frames, elapsed_ns, waits, late_edge=_late_edge())


def _follow_edges() -> None:
    """Remember the first edge; what was seen before the first step had ended is set-up, too.

    Of a step that takes so long that it has been written about, whoever reads it decides: it may be
    the only one.
    """
    edge, first = recorder.last_edge(), _state.edge
    if edge is not None and (first is None or edge[0] < first[0]):
        _state.edge = edge
        if first is None:
            _report_as("setup" if _state.reported == _state.began else FIRST)


def _late_edge() -> int | None:
    """Return the last edge's number if the step takes far longer than steps do.

    Something is done in it alone, or it was the last one, and the training is over.
    """
    edge, first = recorder.last_edge(), _state.edge
    if edge is None or first is None:
        return None
    count = edge[0] - first[0]
    mean_ns = (edge[1] - first[1]) / max(1, count)
    is_late = count >= LATE_EDGES and time.monotonic_ns() - edge[1] > LATE_FACTOR * mean_ns
    return edge[0] if is_late else None


def _has_moved(ident: int, code: Any, instruction: int) -> bool:
    """Return whether a thread has gone on since it was looked at: we may have lost the GIL."""
    top = sys._current_frames().get(ident)
    return top is None or top.f_code is not code or top.f_lasti != instruction


def _clock() -> int | None:
    """Return the processor time of the main thread; None where another one is looked at."""
    ident = recorder.stepping_thread()[0] or _state.ident
    # It may be imported at this moment, and not have it yet.
    main_thread = getattr(sys.modules.get("threading"), "main_thread", None)
    # Of a thread that may have ended the clock must not be asked for: C would read freed memory.
    if main_thread is None or ident != main_thread().ident:
        return None
    try:
        return time.clock_gettime_ns(time.pthread_getcpuclockid(ident))
    except (AttributeError, OSError):
        return None


def _report(*, last: bool = False) -> None:
    _state.reported = time.monotonic_ns()
    role = _state.role
    if role is None or not thinning.affords(last=last):
        return  # they are counted on
    if role == "training":
        threads.report_threads()
        if (recorder.last_edge() or (None,))[0] != counting.stacks.late_edge:
            counting.join_late()
    _report_as(FIRST if role == "training" and _state.edge is None else role)
    # If steps go on after this, whoever reads it knows by what is written then that it was none.
    _write(ENDING, counting.take(MAX_REPORTED[role], is_late=True))


def _report_as(role: str) -> None:
    _write(role, counting.take(MAX_REPORTED.get(role, MAX_REPORTED["training"])))


def _write(thread: str, counts: dict[str, Any]) -> None:
    if counts["stacks"]:
        step = (recorder.last_edge() or (0,))[0]
        recorder.write(wire.STACKS, {"thread": thread, "step": step, **counts})
