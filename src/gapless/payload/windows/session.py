"""The windows of one process: opened, marked and closed at the edges of its steps."""

from __future__ import annotations

import os
import threading
from typing import Any

from ... import wire
from .. import recorder, stepping, thinning, tracebacks
from . import cupti, save
from .agreeing import Agreement
from .capture import no_stacks, obstacle, ranks_of_job
from .clock import bracket
from .keeping import Keeping
from .leaving import leave
from .opened import Opened
from .plan import LEAST, PROBE, STACKS, Plan

STEP = "gapless:step"
EVALUATION = "gapless:eval"
PATIENCE_NS = 30_000_000_000  # a window that lasts longer is closed where it is seen
MANY = 10  # and longer than so many times what its steps should take
CHECKED = 30  # steps after which a check ends that can have no window
ENOUGH, PLAIN = 75, 60  # steps, and of them plain ones: how much they vary is known then
SAMPLED_NS, SOON_NS = 8_000_000_000, 15_000_000_000  # since the first step; since the windows


class Session:
    """What a process knows of its windows."""

    def __init__(self, spool: str, options: dict[str, Any]) -> None:
        job, told = ranks_of_job() or {}, os.environ
        world = int(job.get("world_size") or told.get("WORLD_SIZE") or 1)
        rank = int(job.get("rank") or told.get("RANK") or 0)
        self.keeping = Keeping(spool, str(options.get("save", save.AUTO)), rank)
        self.check = bool(options.get("check"))
        self.plan = Plan(options, world)
        self.together = Agreement(spool)
        self.open: Opened | None = None
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
            self.plan.held(self.keeping.reap())
        what = self.plan.edge(step, end)
        if self.check and self._check(step):
            return
        if what is None or self.over is not None or self._waits():
            return
        if self.plan.ranks and not self.together.open(what, step, self.plan.affords(step, end)):
            self.plan.postponed(step)
            return
        if stepping.several():
            self.end("several threads step: torch's profiler may crash when it stops among them")
            return
        begun = recorder.now()
        self._open(what, step)
        recorder.mark(wire.OBSERVER, begun, recorder.now(), value=wire.OBSERVER_WINDOW)

    def _step(self, step: int) -> None:
        here = self.open
        if here is None or here.thread != threading.get_ident():
            return
        here.end_evaluation()  # what steps is no evaluation
        with self.make(STEP):
            pass
        here.steps, here.stepped = step - here.step, recorder.now()
        if here.steps < 0:
            self.discard("another optimizer's steps count now")
        elif here.is_done(self.plan.more(here.what)):
            self.close(step)

    def _waits(self) -> bool:
        """Tell whether a window waits until the one before is saved: two take twice the memory.

        Not those of several ranks, which all open at the same step.
        """
        return bool(self.keeping.children) and not self.plan.ranks

    def _check(self, step: int) -> bool:
        """Leave once enough was seen; tell whether the windows are in, so that none is opened.

        Ranks leave by step numbers and windows alone, which are the same in all of them.
        """
        done = self.plan.kept > 0 and not self.plan.stacks_due
        if done and self.over is None and self.plan.lacks(step):
            self.plan.hasten(step)
            return False
        if (self.over is not None and step >= CHECKED) or (done and self._seen_enough(step)):
            leave(several=self.plan.ranks)
        return done

    def _seen_enough(self, step: int) -> bool:
        if self.plan.ranks:
            return step >= self.plan.settled
        now = recorder.now()
        self.done_at = self.done_at or now
        sampled = step >= ENOUGH and self.plain >= PLAIN and now - self.plan.since >= SAMPLED_NS
        return sampled or now - self.done_at >= SOON_NS

    # ── Opening ─────────────────────────────────────────────────────────────────────────────────

    def _open(self, what: str, step: int) -> None:
        want = self.plan.steps(what)
        reason = obstacle() or self.keeping.no_room(self.plan.events_of(what, want))
        if reason is not None:
            self.end(reason)
            return
        if what is STACKS:
            reason = no_stacks()
            if reason is not None:
                recorder.unseen("lines of windows", reason)
                self.plan.without_stacks(step)
                return
        from torch.autograd.profiler import record_function

        self.make = record_function
        self.number += what is not PROBE
        self.thread = threading.get_ident()
        begun = recorder.now()
        self.plan.opened(step, begun)
        try:
            here = Opened(what, self.number, step, want)
        except RuntimeError as error:  # a profiler that is being prepared shows nowhere
            if tracebacks.from_a_signal_handler(error):
                raise
            self.end(f"torch's profiler did not start: {error}"[:300])
            return
        try:
            self._mark_beginning(here)
        except BaseException:
            here.capture.stop()
            raise
        here.begun = begun
        self.open = here
        thinning.hold()

    def _mark_beginning(self, here: Opened) -> None:
        if not here.capture.all_threads:
            recorder.unseen("other threads in windows", "this torch records one thread alone")
        here.begin = bracket(self.make, recorder.now)
        with self.make(STEP):
            pass
        here.start = recorder.now()
        usual = max(self.plan.recent, default=0) * here.want * MANY
        here.deadline = here.start + max(PATIENCE_NS, usual)
        here.watch()

    # ── Closing ─────────────────────────────────────────────────────────────────────────────────

    def close(self, step: int) -> None:
        """Close the open window and keep it."""
        here, self.open = self.open, None
        if here is None:
            return
        begun = recorder.now()
        frame = here.frame(step)
        try:
            here.end_ranges()
            frame["readings"] = [here.begin, bracket(self.make, recorder.now)]
            here.capture.describe(frame)
        finally:
            stop = recorder.now()
            result = here.capture.stop()
        stopped = recorder.now() - stop
        frame.update(stop_ns=stopped, detached=here.capture.detached)
        if here.what is PROBE:
            self._probed(step, result, here.cost(begun, self.plan.usual()), stopped)
        else:
            events = self.plan.events_of(here.what, here.steps)
            self.keeping.keep(frame, result, events, here=self.check)
        del result
        if here.what is not PROBE:
            stopped, cost = recorder.now() - stop, here.cost(begun, self.plan.usual())
            self.plan.closed(self._planned(here, step), here.steps, stopped, cost)
        recorder.mark(wire.OBSERVER, begun, recorder.now(), value=wire.OBSERVER_WINDOW)
        thinning.release()
        if self.check:
            self._check(step)

    def _planned(self, here: Opened, step: int) -> int:
        """Give the step by which to plan: for ranks one that is the same in all of them.

        However far behind a device is, and however many events one rank's probe saw.
        """
        if not self.plan.ranks:
            return step
        return here.step + (LEAST if here.what is STACKS else self.plan.window_steps)

    def _probed(self, step: int, result: Any, cost: int, stopped: int) -> None:
        events, begun = len(result.events()), recorder.now()
        self.keeping.try_out(result)
        reason = self.plan.probed(step, events, cost + recorder.now() - begun, stopped)
        if reason is not None:
            self.end(reason)

    # ── Ends before their time ──────────────────────────────────────────────────────────────────

    def discard(self, why: str) -> None:
        """Stop the open window, if there is one; keep it only if it but waits for its device."""
        here = self.open
        if here is not None and here.is_whole() and self._may_stop(here):
            self.close(here.step + here.steps)
            return
        self.open = None
        if here is None or not self._may_stop(here):
            return
        begun = recorder.now()
        try:
            here.end_ranges()
        finally:
            here.capture.stop()
        if here.what is not PROBE:
            frame = here.frame(here.step + here.steps)
            recorder.write(wire.WINDOW, {**frame, "discarded": why})
        planned = self._planned(here, here.step + here.steps)
        reason = self.plan.failed(planned, recorder.now() - begun)
        recorder.mark(wire.OBSERVER, begun, recorder.now(), value=wire.OBSERVER_WINDOW)
        thinning.release()
        if reason is not None:
            self.end(reason)

    def ended(self, why: str) -> None:
        """End with the process: keep the whole steps of the open window, if they tell anything.

        Not those whose device still works on them: nobody waits for it at an exit.
        """
        here = self.open
        if here is not None and self._may_stop(here) and here.tells():
            self.close(here.step + here.steps)
        else:
            self.discard(why)

    def cut(self, why: str) -> None:
        """End the open window here: keep its whole steps if they are enough."""
        here = self.open
        if here is None or not self._may_stop(here):
            return
        if here.is_whole() or (here.what is not PROBE and here.steps >= LEAST):
            self.close(here.step + here.steps)
        else:
            self.discard(why)

    def _may_stop(self, here: Opened) -> bool:
        return here.capture.all_threads or here.thread == threading.get_ident()

    def end(self, why: str) -> None:
        """Have no more windows in this process."""
        if self.over is None:
            self.over = why
            recorder.unseen("windows", why)
            cupti.hand_back()

    # ── Between edges ───────────────────────────────────────────────────────────────────────────

    def range(self, name: str) -> Any:
        """Give a range of the open window; ``None`` if it has lasted too long and was cut."""
        return None if self._overdue() else self.make(name)

    def evaluation(self, *, begins: bool) -> None:
        """Show an evaluation from its beginning to its end or the next step."""
        here = self.open
        if here is None or here.thread != threading.get_ident():
            return
        here.end_evaluation()
        shown = self.range(EVALUATION) if begins else None
        if shown is not None:
            here.evaluation = shown
            shown.__enter__()

    def poll(self) -> None:
        """Cut a window that has lasted too long; see which children are done with saving."""
        if self.thread != threading.get_ident():
            return
        if self.open is not None:
            self._overdue()
        elif self.keeping.children:
            self.plan.held(self.keeping.reap())

    def _overdue(self) -> bool:
        here = self.open
        if here is None or recorder.now() <= here.deadline:
            return False
        self.cut("it lasted too long")
        return True
