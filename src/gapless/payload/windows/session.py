"""The windows of one process: opened, marked and closed at the edges of its steps."""

from __future__ import annotations

import os
import threading
from typing import Any

from ... import wire
from .. import lineage, recorder
from . import save
from .capture import Capture, no_stacks, obstacle, ranks_of_job
from .clock import bracket
from .leaving import leave
from .plan import LEAST, PROBE, STACKS, Plan

STEP = "gapless:step"
PATIENCE_NS = 30_000_000_000  # a window that lasts longer is closed where it is seen
MANY = 10  # and longer than so many times what its steps should take
BYTES_AN_EVENT = 600  # in the file, at most (seen: 400)
SPARE = 256 << 20  # bytes that the spool's disk must keep
FOLDER = "windows"
CHECKED = 30  # steps after which a check ends that can have no window


class Opened:
    """A window that is open."""

    def __init__(self, what: str, number: int, step: int, want: int) -> None:
        self.what, self.number, self.want = what, number, want
        self.step = step  # that ended when it was opened
        self.steps = 0  # whole ones since
        self.thread = threading.get_ident()
        self.capture = Capture(stacks=what is STACKS)
        self.begin: list[tuple[int, int]] = []
        self.start = recorder.now()
        self.deadline = 0


class Session:
    """What a process knows of its windows."""

    def __init__(self, spool: str, options: dict[str, Any]) -> None:
        job = ranks_of_job() or {}
        world = int(job.get("world_size") or os.environ.get("WORLD_SIZE") or 1)
        self.rank = int(job.get("rank") or os.environ.get("RANK") or 0)
        self.spool = spool
        self.check = bool(options.get("check"))
        self.setting = str(options.get("save", save.AUTO))
        self.plan = Plan(options, world)
        self.open: Opened | None = None
        self.child: save.Child | None = None
        self.told: dict[str, Any] = {}  # the frame of the window that the child saves
        self.number = 0
        self.over: str | None = None  # why there are no more windows
        self.make: Any = None  # record_function
        if not options.get("windows", True):
            self.over = "not asked for"

    # ── Edges ───────────────────────────────────────────────────────────────────────────────────

    def edge(self, step: int, end: int) -> None:
        """Do what is due after a step."""
        if self.open is not None:
            self._step(step)
            return
        if self.child is not None:
            self._reap()
        what = self.plan.edge(step, end)
        if self.check:
            self._check(step)
        if what is None or self.over is not None or self.child is not None:
            return
        begun = recorder.now()
        self._open(what, step)
        recorder.mark(wire.OBSERVER, begun, recorder.now(), value=wire.OBSERVER_WINDOW)

    def _step(self, step: int) -> None:
        here = self.open
        if here is None or here.thread != threading.get_ident():
            return
        with self.make(STEP):
            pass
        here.steps = step - here.step
        if here.steps >= here.want:
            self.close(step)

    def _check(self, step: int) -> None:
        done = self.plan.kept > 0 and not self.plan.stacks_due and self.child is None
        if done or (self.over is not None and step >= CHECKED):
            leave(several=self.plan.ranks)

    # ── Opening ─────────────────────────────────────────────────────────────────────────────────

    def _open(self, what: str, step: int) -> None:
        reason = obstacle() or self._no_room(what)
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
        self.plan.opened(step, recorder.now())
        try:
            here = Opened(what, self.number, step, self.plan.steps(what))
        except RuntimeError as error:  # a profiler that is being prepared shows nowhere
            self.end(f"torch's profiler did not start: {error}"[:300])
            return
        if not here.capture.all_threads:
            recorder.unseen("other threads in windows", "this torch records one thread alone")
        here.begin = bracket(record_function, recorder.now)
        with record_function(STEP):
            pass
        here.start = recorder.now()
        usual = max(self.plan.recent, default=0) * here.want * MANY
        here.deadline = here.start + max(PATIENCE_NS, usual)
        self.open = here

    def _no_room(self, what: str) -> str | None:
        events = (self.plan.per_step or 0) * self.plan.steps(what)
        os.makedirs(os.path.join(self.spool, FOLDER), exist_ok=True)
        disk = os.statvfs(self.spool)
        if disk.f_bavail * disk.f_frsize < SPARE + 2 * BYTES_AN_EVENT * events:
            return "the disk of the spool is almost full"
        return None

    # ── Closing ─────────────────────────────────────────────────────────────────────────────────

    def close(self, step: int) -> None:
        """Close the open window and keep it."""
        here, self.open = self.open, None
        if here is None:
            return
        begun = recorder.now()
        frame = self._frame(here, step)
        frame["readings"] = [here.begin, bracket(self.make, recorder.now)]
        here.capture.describe(frame)
        stop = recorder.now()
        result = here.capture.stop()
        frame["stop_ns"] = recorder.now() - stop
        if here.what is PROBE:
            self._probed(step, result, begun)
        else:
            self._keep(frame, result)
            self.plan.closed(step, here.steps, frame["stop_ns"], recorder.now() - begun)
        del result
        recorder.mark(wire.OBSERVER, begun, recorder.now(), value=wire.OBSERVER_WINDOW)
        if self.check:
            self._check(step)

    def _probed(self, step: int, result: Any, begun: int) -> None:
        events = len(result.events())
        # The first file of a process asks CUDA for the devices' properties; no child may do that.
        path = os.path.join(self.spool, FOLDER, f"probe-{os.getpid()}.json")
        if save.in_place(result, path):
            os.unlink(path)
        reason = self.plan.probed(step, events, recorder.now() - begun)
        if reason is not None:
            self.end(reason)

    def _frame(self, here: Opened, step: int) -> dict[str, Any]:
        return {
            "number": here.number,
            "path": None,
            "start": here.start,
            "end": recorder.now(),
            "first_step": here.step + 1,
            "last_step": step,
            "stacks": here.what is STACKS,
            "offset_ns": None,  # found by who reads the file: it shows Kineto's side
            "error_ns": None,
            "stop_ns": None,
            "save_ns": None,
            "discarded": None,
        }

    def _keep(self, frame: dict[str, Any], result: Any) -> None:
        name = self._name(frame)
        path = os.path.join(self.spool, FOLDER, name)
        frame["path"] = f"{FOLDER}/{name}"
        recorder.write(wire.WINDOW, frame)  # now: the child may outlive us, and the file is known
        recorder.flush()
        begun = recorder.now()
        reason = save.no_child(save.PLACE if self.check else self.setting, cuda=_cuda())
        if reason is None:
            self.child = save.in_child(result, path, begun)
        whole = None if self.child is not None else save.in_place(result, path)
        frame["save_ns"] = recorder.now() - begun
        self.told = frame
        if whole is not None:
            self._saved(whole=whole)

    def _saved(self, *, whole: bool) -> None:
        """Write down how the saving of a window ended."""
        if not whole:
            self.told.update(path=None, discarded="it could not be saved")
        recorder.write(wire.WINDOW, self.told)

    def _name(self, frame: dict[str, Any]) -> str:
        stem = lineage.stem or f"rank{self.rank}"
        name = f"{stem}-step{frame['first_step']}{'-stacks' * frame['stacks']}"
        for part in (name, f"{name}-pid{os.getpid()}"):
            path = os.path.join(self.spool, FOLDER, part)
            if not os.path.exists(path + ".json") and not os.path.exists(path + ".json.part"):
                return part + ".json"
        return f"{name}-pid{os.getpid()}-{recorder.now()}.json"

    def _reap(self) -> None:
        child = self.child
        whole = None if child is None else child.saved(recorder.now())
        if child is None or whole is None:
            return
        begun, self.child = recorder.now(), None
        if not whole:
            recorder.unseen("saving beside the training", "the child failed; saved in place")
            self.setting = save.PLACE
            whole = save.in_place(child.result, child.path)
            self.told["save_ns"] += recorder.now() - begun
        child.result = None
        self._saved(whole=whole)
        recorder.mark(wire.OBSERVER, begun, recorder.now(), value=wire.OBSERVER_WINDOW)

    # ── Ends before their time ──────────────────────────────────────────────────────────────────

    def discard(self, why: str) -> None:
        """Stop the open window, if there is one, and keep nothing of it."""
        here, self.open = self.open, None
        if here is None or not self._may_stop(here):
            return
        begun = recorder.now()
        here.capture.stop()
        if here.what is not PROBE:
            frame = self._frame(here, here.step + here.steps)
            recorder.write(wire.WINDOW, {**frame, "discarded": why})
        reason = self.plan.failed(here.step + here.steps, recorder.now() - begun)
        recorder.mark(wire.OBSERVER, begun, recorder.now(), value=wire.OBSERVER_WINDOW)
        if reason is not None:
            self.end(reason)

    def cut(self, why: str) -> None:
        """End the open window here: keep its whole steps if they are enough."""
        here = self.open
        if here is None or not self._may_stop(here):
            return
        if here.what is not PROBE and here.steps >= LEAST:
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

    def range(self, name: str) -> Any:
        """Give a range of the open window; ``None`` if it has lasted too long and was cut."""
        here = self.open
        if here is None or recorder.now() <= here.deadline:
            return self.make(name)
        self.cut("it lasted too long")
        return None


def _cuda() -> bool:
    import torch

    return torch.cuda.is_initialized()
