"""The windows of one process: opened, marked and closed at the edges of its steps."""

from __future__ import annotations

import os
import threading
from typing import Any

from ... import wire
from .. import recorder, stepping, tracebacks
from ..log import thinning
from . import cupti, save
from .agreeing import RankAgreement
from .capture import no_stacks, obstacle, ranks_of_job
from .clock import bracket
from .keeping import WindowFiles
from .open_window import OpenWindow
from .plan import MIN_WINDOW_STEPS, PROBE, STACKS, WindowPlan
from .requests import WindowRequests
from .stop import leave

STEP = "gapless:step"
EVALUATION = "gapless:eval"
PATIENCE_NS = 30_000_000_000  # a window that lasts longer is closed where it is seen
MAX_SLOWDOWN = 10  # and longer than so many times what its steps should take
CHECK_STEPS = 30  # steps after which a check ends that can have no window
MIN_STEPS, MIN_PLAIN = 75, 60  # steps, and of them plain ones: how much they vary is known then
CHECK_NS, SOON_NS = 8_000_000_000, 15_000_000_000  # since the first step; since the windows


class Session:
    """What a process knows of its windows."""

    def __init__(self, spool: str, options: dict[str, Any]) -> None:
        job, environment = ranks_of_job() or {}, os.environ
        world = int(job.get("world_size") or environment.get("WORLD_SIZE") or 1)
        rank = int(job.get("rank") or environment.get("RANK") or 0)
        self.keeping = WindowFiles(spool, str(options.get("save", save.AUTO)), rank)
        self.check = bool(options.get("check"))
        self.plan = WindowPlan(options, world)
        self.together = RankAgreement(spool)
        self.requests = WindowRequests(spool)
        self.open: OpenWindow | None = None
        self.number = 0
        self.over: str | None = None  # why there are no more windows
        self.make: Any = None  # record_function
        self.thread = -1  # that steps
        self.done_at = 0  # of a check: when its windows were in
        self.plain = 0  # steps that ended without a window
        if not options.get("windows", True):
            self.over = "not asked for"

    def edge(self, step: int, end: int) -> None:
        """Do what is due after a step."""
        if self.open is not None:
            self._step(step)
            return
        self.plain += 1
        if self.keeping.children:
            self.plan.note_cost(self.keeping.reap())
        kind = self.plan.edge(step, end)
        if self.check and self._check(step):
            return
        if kind is None or self.over is not None or self._must_wait():
            return
        if self.plan.ranks and not self.together.open(kind, step, self.plan.affords(step, end)):
            self.plan.postpone(step)
            return
        if stepping.has_several_threads():
            self.end("several threads step: torch's profiler may crash when it stops among them")
            return
        start_ns = recorder.now()
        self._open(kind, step)
        recorder.mark(wire.OBSERVER, start_ns, recorder.now(), value=wire.OBSERVER_WINDOW)

    def ask(self, step: int, asked_step: int) -> None:
        """Have a window that somebody asks for: soon, and in all ranks after the same step."""
        if not self.plan.ranks:
            self.plan.ask(step)
        elif asked_step > step:
            self.plan.ask(asked_step)

    def _step(self, step: int) -> None:
        window = self.open
        if window is None or window.thread != threading.get_ident():
            return
        window.end_evaluation()  # what steps is no evaluation
        with self.make(STEP):
            pass
        window.steps, window.stepped = step - window.step, recorder.now()
        if window.steps < 0:
            self.discard("another optimizer's steps count now")
        elif window.is_done(self.plan.extra_steps(window.what)):
            self.close(step)

    def _must_wait(self) -> bool:
        """Return whether a window waits until the one before is saved: two take twice the memory.

        Not those of several ranks, which all open at the same step.
        """
        return bool(self.keeping.children) and not self.plan.ranks

    def _check(self, step: int) -> bool:
        """Leave once enough was seen; return whether the windows are in, so that none is opened.

        Ranks leave by step numbers and windows alone, which are the same in all of them.
        """
        is_done = self.plan.kept > 0 and not self.plan.stacks_due
        if is_done and self.over is None and self.plan.lacks(step):
            self.plan.advance(step)
            return False
        if (self.over is not None and step >= CHECK_STEPS) or (is_done and self._seen_enough(step)):
            leave(several=self.plan.ranks)
        return is_done

    def _seen_enough(self, step: int) -> bool:
        if self.plan.ranks:
            return step >= self.plan.settled
        now = recorder.now()
        self.done_at = self.done_at or now
        ample = step >= MIN_STEPS and self.plain >= MIN_PLAIN and now - self.plan.since >= CHECK_NS
        return ample or now - self.done_at >= SOON_NS

    # ── Opening ─────────────────────────────────────────────────────────────────────────────────

    def _open(self, kind: str, step: int) -> None:
        planned_steps = self.plan.steps(kind)
        reason = obstacle() or self.keeping.no_room(self.plan.events_of(kind, planned_steps))
        if reason is not None:
            self.end(reason)
            return
        if kind is STACKS:
            reason = no_stacks()
            if reason is not None:
                recorder.report_unobserved("lines of windows", reason)
                self.plan.without_stacks(step)
                return
        from torch.autograd.profiler import record_function

        self.make = record_function
        self.number += kind is not PROBE
        self.thread = threading.get_ident()
        start_ns = recorder.now()
        self.plan.note_opened(step, start_ns)
        window = self._start(kind, step, planned_steps)
        if window is None or self._is_stuck(window):
            return
        try:
            self._mark_beginning(window)
        except BaseException:
            window.capture.stop()
            raise
        window.begun = start_ns
        self.open = window
        thinning.hold()

    def _start(self, kind: str, step: int, planned_steps: int) -> OpenWindow | None:
        """Start the profiler; ``None`` where it does not: there are no windows then."""
        try:
            return OpenWindow(kind, self.number, step, planned_steps)
        except RuntimeError as error:  # a profiler that is being prepared shows nowhere
            if tracebacks.from_a_signal_handler(error):
                raise
            self.end(f"torch's profiler did not start: {error}"[:300])
            return None

    def _is_stuck(self, window: OpenWindow) -> bool:
        """Return whether nobody could stop a window at the end of the process; it is stopped then.

        The first thread does that, and may not where another one's operators alone are recorded.
        """
        if window.capture.all_threads or self.thread == threading.main_thread().ident:
            return False
        window.capture.stop()
        self.end(f"what steps is not the first thread, and {window.capture.alone}")
        return True

    def _mark_beginning(self, window: OpenWindow) -> None:
        if not window.capture.all_threads:
            recorder.report_unobserved("other threads in windows", window.capture.alone)
        window.begin = bracket(self.make, recorder.now)
        with self.make(STEP):
            pass
        window.start = recorder.now()
        usual = max(self.plan.recent, default=0) * window.want * MAX_SLOWDOWN
        window.deadline = window.start + max(PATIENCE_NS, usual)
        window.watch()

    # ── Closing ─────────────────────────────────────────────────────────────────────────────────

    def close(self, step: int) -> None:
        """Close the open window and keep it."""
        window, self.open = self.open, None
        if window is None:
            return
        start_ns = recorder.now()
        frame = window.frame(step)
        try:
            window.end_ranges()
            frame["readings"] = [window.begin, bracket(self.make, recorder.now)]
            window.capture.describe(frame)
        finally:
            stop_start = recorder.now()
            result = window.capture.stop()
        stop_ns = recorder.now() - stop_start
        frame.update(stop_ns=stop_ns, detached=window.capture.detached)
        if window.what is PROBE:
            self._note_probe(step, result, window.cost(start_ns, self.plan.usual()), stop_ns)
        else:
            events = self.plan.events_of(window.what, window.steps)
            self.keeping.keep(frame, result, events, in_place=self.check)
        del result
        if window.what is not PROBE:
            stop_ns, cost = recorder.now() - stop_start, window.cost(start_ns, self.plan.usual())
            self.plan.note_kept(self._planning_step(window, step), window.steps, stop_ns, cost)
        recorder.mark(wire.OBSERVER, start_ns, recorder.now(), value=wire.OBSERVER_WINDOW)
        thinning.release()
        if self.check:
            self._check(step)

    def _planning_step(self, window: OpenWindow, step: int) -> int:
        """Return the step by which to plan: for ranks one that is the same in all of them.

        However far behind a device is, and however many events one rank's probe saw.
        """
        if not self.plan.ranks:
            return step
        return window.step + (MIN_WINDOW_STEPS if window.what is STACKS else self.plan.window_steps)

    def _note_probe(self, step: int, result: Any, cost: int, stop_ns: int) -> None:
        events, start_ns = len(result.events()), recorder.now()
        self.keeping.try_out(result)
        reason = self.plan.note_probe(step, events, cost + recorder.now() - start_ns, stop_ns)
        if reason is not None:
            self.end(reason)

    # ── Ends before their time ──────────────────────────────────────────────────────────────────

    def discard(self, why: str) -> None:
        """Stop the open window, if there is one; keep it only if it but waits for its device."""
        window = self.open
        if window is not None and window.is_whole() and self._may_stop(window):
            self.close(window.step + window.steps)
            return
        self.open = None
        if window is None or not self._may_stop(window):
            return
        start_ns = recorder.now()
        try:
            window.end_ranges()
        finally:
            window.capture.stop()
        if window.what is not PROBE:
            frame = window.frame(window.step + window.steps)
            recorder.write(wire.WINDOW, {**frame, "discarded": why})
        planning_step = self._planning_step(window, window.step + window.steps)
        reason = self.plan.note_failure(planning_step, recorder.now() - start_ns)
        recorder.mark(wire.OBSERVER, start_ns, recorder.now(), value=wire.OBSERVER_WINDOW)
        thinning.release()
        if reason is not None:
            self.end(reason)

    def end_with_process(self, why: str) -> None:
        """End with the process: keep the whole steps of the open window, if they show anything.

        Not those whose device still works on them: nobody waits for it at an exit.
        """
        window = self.open
        if window is not None and self._may_stop(window) and window.is_informative():
            self.close(window.step + window.steps)
        else:
            self.discard(why)

    def cut(self, why: str) -> None:
        """End the open window here: keep its whole steps if they are enough."""
        window = self.open
        if window is None or not self._may_stop(window):
            return
        if window.is_whole() or (window.what is not PROBE and window.steps >= MIN_WINDOW_STEPS):
            self.close(window.step + window.steps)
        else:
            self.discard(why)

    def _may_stop(self, window: OpenWindow) -> bool:
        return window.capture.all_threads or window.thread == threading.get_ident()

    def end(self, why: str) -> None:
        """Have no more windows in this process."""
        if self.over is None:
            self.over = why
            recorder.report_unobserved("windows", why)
            cupti.hand_back()

    # ── Between edges ───────────────────────────────────────────────────────────────────────────

    def range(self, name: str) -> Any:
        """Return a range of the open window; ``None`` if it has lasted too long and was cut."""
        return None if self._overdue() else self.make(name)

    def evaluation(self, *, begins: bool) -> None:
        """Show an evaluation from its beginning to its end or the next step."""
        window = self.open
        if window is None or window.thread != threading.get_ident():
            return
        window.end_evaluation()
        span = self.range(EVALUATION) if begins else None
        if span is not None:
            window.evaluation = span
            span.__enter__()

    def poll(self) -> None:
        """Cut a window that has lasted too long; see which children are done with saving."""
        if self.thread != threading.get_ident():
            return
        if self.open is not None:
            self._overdue()
        elif self.keeping.children:
            self.plan.note_cost(self.keeping.reap())

    def _overdue(self) -> bool:
        window = self.open
        if window is None or recorder.now() <= window.deadline:
            return False
        self.cut("it lasted too long")
        return True
