"""Run one arm of a trial, from its start to the values of its recording."""

import os
import re
import signal
import time
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from gapless.errors import GaplessError
from gapless.launch import apart, sandbox
from gapless.launch.environment import Settings
from gapless.launch.order import Order as Launched
from gapless.model.account import Account
from gapless.model.edit import as_json
from gapless.model.recording import Recording
from gapless.model.trial import Arm
from gapless.store.recordings import load
from gapless.study import Options, study_recording
from gapless.verify import cold
from gapless.verify.wanted import OUT_OF_MEMORY, Order, Ran, RunArm

NO_STEPS: Final = "no steps"
OUTPUT: Final = "output.txt"  # of an arm, in its run folder
_TAIL: Final = 64 << 10  # bytes of the output that are looked at
_WORDS: Final = 300  # letters of a reason
_NO_MEMORY: Final = re.compile(
    r"OutOfMemoryError|CUDA out of memory|CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED"
    r"|^MemoryError|can't allocate memory|Cannot allocate memory",
    re.MULTILINE,
)
_KILLED: Final = frozenset({-int(signal.SIGKILL), 128 + int(signal.SIGKILL)})
_WORKER_KILLED: Final = "is killed by signal: Killed"
_TICK_NS: Final = 10**9 // os.sysconf("SC_CLK_TCK")
_BUSY: Final = (0, 1, 2, 5, 6)  # user, nice, system, hard and soft interrupts in /proc/stat


@dataclass(frozen=True)
class ArmPlan:
    """What all arms of a trial have in common."""

    command: tuple[str, ...]
    out: Path  # the folder that gets a run folder for each
    private: Path | None = None  # the folder of which each arm sees a view of its own
    variables: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    deadline_s: float = 900.0  # from the start of the process
    seed: int = 0
    losses: int = 256  # micro-batches
    batches: int = 64  # whose samples are looked at, where they have no indices
    close: bool = True  # the workers are ended, and how long that takes is measured
    cold: tuple[Path, ...] = ()  # files that are out of memory when an arm begins


def run(plan: ArmPlan, order: Order) -> tuple[Arm, Recording | None]:
    """Run an arm; give what came of it, and what it recorded (``None``: nothing).

    What its steps took is for ``verify.steady`` to say. Raises ``OSError`` where it cannot begin.
    """
    plan.out.mkdir(parents=True, exist_ok=True)
    output = plan.out / f"{order.order}-{order.side}.txt"
    private = nullcontext() if plan.private is None else sandbox.view(plan.private)
    with private as view:
        prefix = () if view is None else sandbox.prefix(view)
        cold.drop(plan.cold)
        busy, spent, killed = _busy_ns(), time.process_time_ns(), _memory_kills()
        begun = time.monotonic_ns()
        launched = replace(
            _apart(plan, order, output, prefix), scratch=() if view is None else (view.place,)
        )
        ended = apart.run(launched)
        wall = time.monotonic_ns() - begun
        ours = time.process_time_ns() - spent
    told = output.read_bytes()[-_TAIL:].decode(errors="replace")
    with suppress(OSError):
        output.replace(ended.folder / OUTPUT)
    recording = _load(ended.folder)
    others = _foreign(busy, wall, None if ended.cpu_ns is None else ended.cpu_ns + ours)
    failed = _failed(ended, told, recording, plan.deadline_s, _memory_kills() > killed)
    return _arm(order, ended, failed, others), recording


def runner(plan: ArmPlan) -> RunArm:
    """Give what runs the arms of a trial, one order after the other."""

    def run_arm(order: Order) -> Ran:
        arm, recording = run(plan, order)
        wanted = order.window and arm.failed is None and recording is not None
        account = _account(recording) if wanted and recording is not None else None
        return Ran(recording, arm.code, arm.failed, account, arm.foreign)

    return run_arm


def _apart(plan: ArmPlan, order: Order, output: Path, prefix: tuple[str, ...]) -> apart.Apart:
    trial: dict[str, Any] = {
        "stop": order.stop,
        "seconds": order.seconds,
        "seed": plan.seed,
        "losses": plan.losses,
        "batches": plan.batches,
        "close": plan.close,
        "window": order.window,
    }
    settings = Settings(windows=order.window, edits=tuple(map(as_json, order.edits)), trial=trial)
    launched = Launched(plan.command, plan.out, settings)
    return apart.Apart(launched, output, plan.deadline_s, prefix, plan.variables)


def _arm(order: Order, ended: apart.Ended, failed: str | None, foreign: float | None) -> Arm:
    return Arm(
        side=order.side,
        order=order.order,
        folder=str(ended.folder),
        code=ended.code,
        steps=0,
        step_ns=None,
        first_batch_ns=None,
        start_ns=None,
        turn_ns=None,
        exit_ns=None,
        foreign=foreign,
        failed=failed,
    )


def _load(folder: Path) -> Recording | None:
    try:
        return load(folder)
    except GaplessError:
        return None


def _account(recording: Recording) -> Account | None:
    """Give the account of an arm's steps, parted further by its window."""
    try:
        found = study_recording(recording, Options(diagnose=False), lambda _: None).recorded
    except GaplessError:
        return None
    joined = None if found is None or not found.windows else found.account
    return None if joined is None else joined.account


# ── Why an arm does not count ───────────────────────────────────────────────────────────────────


def _failed(
    ended: apart.Ended,
    told: str,
    recording: Recording | None,
    deadline_s: float,
    killed: bool,  # noqa: FBT001 - a process was, for want of memory
) -> str | None:
    """Say why an arm does not count; ``None``: it does."""
    if not ended.planned:
        if ended.late:
            return f"it was not done after {deadline_s:.0f} s"
        if ended.code:
            return _reason(told, ended.code, killed)
    if recording is None or not any(one.role == "training" for one in recording.processes):
        return NO_STEPS
    for one in (each for process in recording.processes for each in process.unseen):
        if one.what.partition(" ")[0] == "edit":  # and its number
            return f"an edit could not be made: {one.why}"[:_WORDS]
    return None


def _reason(told: str, code: int, killed: bool) -> str:  # noqa: FBT001
    if _NO_MEMORY.search(told) or (killed and (code in _KILLED or _WORKER_KILLED in told)):
        return OUT_OF_MEMORY
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    if code < 0:
        return f"ended by signal {-code}"
    return lines[-1][:_WORDS] if lines else f"it ended with exit code {code}"


def _memory_kills() -> int:
    """Give how many processes the kernel has ended for want of memory, here and in our group."""
    found = 0
    for path in ("/proc/vmstat", "/sys/fs/cgroup/memory.events"):
        with suppress(OSError, ValueError, IndexError):
            words = Path(path).read_text(encoding="ascii").split()
            found += int(words[words.index("oom_kill") + 1])
    return found


# ── Processors that others took ─────────────────────────────────────────────────────────────────


def _busy_ns() -> int | None:
    """Give for how long the processors that arms may use were busy since the machine started."""
    with suppress(OSError, ValueError, IndexError):
        mine = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        rows = (row.split() for row in Path("/proc/stat").read_text().splitlines())
        busy = [sum(int(row[1 + at]) for at in _BUSY) for row in rows if row and row[0] in mine]
        return sum(busy) * _TICK_NS if len(busy) == len(mine) else None
    return None


def _foreign(before: int | None, wall: int, ours: int | None) -> float | None:
    """Give the share of these processors that was neither idle nor ours since ``before``."""
    now = _busy_ns()
    if before is None or now is None or ours is None:
        return None
    return max(0.0, (now - before - ours) / (wall * len(os.sched_getaffinity(0))))
