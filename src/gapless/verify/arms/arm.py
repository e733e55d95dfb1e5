"""Run one arm of a trial, from its start to the values of its recording."""

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from gapless.errors import GaplessError
from gapless.launch.environment import RecorderSettings
from gapless.launch.run_spec import RunSpec as Launched
from gapless.launch.trial import isolated, sandbox
from gapless.launch.trial.turns import Seat
from gapless.model.account import Account
from gapless.model.edit import edit_to_json
from gapless.model.recording import Recording
from gapless.model.trial import Arm
from gapless.store.run.recordings import load
from gapless.study import Options, study_recording
from gapless.verify.arms import page_cache
from gapless.verify.arms.switchable import FIRST_SWITCHED, plan_switches
from gapless.verify.specs import OUT_OF_MEMORY, ArmRun, ArmSpec, RunArm

NO_STEPS: Final = "no steps"
OUTPUT: Final = "output.txt"  # of an arm, in its run folder
_TAIL_BYTES: Final = 64 << 10  # bytes of the output that are looked at
_MAX_REASON_LENGTH: Final = 300  # characters of a reason
# The first line of an error: advice may follow it, as CUDA's "Compile with `TORCH_USE_CUDA_DSA` …".
_ERROR_LINE: Final = re.compile(
    r"(?:\[rank\d+\]:\s*)?(?!.*ChildFailedError)[A-Za-z_][\w.]*(Error|Exception|Interrupt)\b"
)
_ADVICE_LINES: Final = 6  # after an error, at most
_OUT_OF_MEMORY_TEXT: Final = re.compile(
    r"OutOfMemoryError|CUDA out of memory|CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED"
    r"|^MemoryError|can't allocate memory|Cannot allocate memory",
    re.MULTILINE,
)
_SWITCHING_S: Final = 300.0, 2.0  # deadline of switched sides: to start, and times their seconds
_KILLED: Final = frozenset({-int(signal.SIGKILL), 128 + int(signal.SIGKILL)})
_WORKER_KILLED: Final = "is killed by signal: Killed"
_TICK_NS: Final = 10**9 // os.sysconf("SC_CLK_TCK")
_BUSY: Final = (0, 1, 2, 5, 6)  # user, nice, system, hard and soft interrupts in /proc/stat


class ArmPlan(Struct, frozen=True):
    """What all arms of a trial have in common."""

    command: tuple[str, ...]
    out: Path  # the folder that gets a run folder for each
    private_folder: Path | None = None  # the folder of which each arm sees a view of its own
    variables: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    deadline_s: float = 900.0  # from the start of the process
    seed: int = 0
    losses: int = 256  # micro-batches
    batches: int = 64  # whose samples are looked at, where they have no indices
    close: bool = True  # the workers are ended, and how long that takes is measured
    cold: tuple[Path, ...] = ()  # files that are out of memory when an arm begins
    files: Mapping[Path, bytes] = field(default_factory=dict[Path, bytes])  # others in its view
    folder: Path | None = None  # working folder; None: ours
    takeover: Mapping[str, Any] | None = None  # what is done in the place of training, by its name
    watch: Callable[[Path], None] | None = None  # called with its spool, ten times a second


class Partner(Struct, frozen=True):
    """What an arm needs to step in turns with another one, which runs at the same time."""

    seat: Seat
    cancelled: threading.Event


def run(
    plan: ArmPlan, spec: ArmSpec, partner: Partner | None = None
) -> tuple[Arm, Recording | None]:
    """Run an arm; return its outcome, and what it recorded (``None``: nothing).

    ``verify.arms.steady`` reads how long its steps took; ``partner``: it steps in turns with
    another. Raises ``OSError`` where it cannot begin.
    """
    plan.out.mkdir(parents=True, exist_ok=True)
    output = plan.out / f"{spec.index}-{spec.side}.txt"
    private = (
        nullcontext() if plan.private_folder is None else sandbox.open_view(plan.private_folder)
    )
    with private as view:
        prefix = () if view is None else sandbox.prefix(view)
        if view is not None:
            sandbox.place_files(view, plan.files)
        page_cache.drop(plan.cold)
        busy_before_ns, cpu_before_ns, kills_before = (
            _busy_ns(),
            time.process_time_ns(),
            _count_memory_kills(),
        )
        start_ns = time.monotonic_ns()
        isolated_run = replace(
            _isolate(plan, spec, output, prefix), scratch=() if view is None else (view.layers,)
        )
        if partner is not None:
            isolated_run = replace(isolated_run, seat=partner.seat, cancelled=partner.cancelled)
        outcome = isolated.run(isolated_run)
        wall_ns = time.monotonic_ns() - start_ns
        own_cpu_ns = time.process_time_ns() - cpu_before_ns
    output_text = output.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")
    with suppress(OSError):
        output.replace(outcome.folder / OUTPUT)
    recording = _load(outcome.folder)
    foreign = _foreign_share(
        busy_before_ns, wall_ns, None if outcome.cpu_ns is None else outcome.cpu_ns + own_cpu_ns
    )
    failure = _find_failure(
        outcome, output_text, recording, plan.deadline_s, _count_memory_kills() > kills_before
    )
    return _describe_arm(spec, outcome, failure, foreign), recording


def make_runner(plan: ArmPlan) -> RunArm:
    """Return the function that runs the arms of a trial, one spec after the other."""

    def run_arm(spec: ArmSpec) -> ArmRun:
        arm, recording = run(plan, spec)
        has_account = spec.takes_window and arm.failed is None and recording is not None
        account = _read_account(recording) if has_account and recording is not None else None
        return ArmRun(recording, arm.code, arm.failed, account, arm.foreign)

    return run_arm


def _isolate(
    plan: ArmPlan, spec: ArmSpec, output: Path, prefix: tuple[str, ...]
) -> isolated.IsolatedRun:
    trial: dict[str, Any] = {
        "stop": spec.stop_step,
        "seconds": spec.seconds,
        "seed": plan.seed,
        "losses": plan.losses,
        "batches": plan.batches,
        "close": plan.close,
        "window": spec.takes_window,
    }
    if spec.switched:
        trial["switching"] = {
            **asdict(plan_switches(len(spec.switched), spec.seconds)),
            "sides": [list(map(edit_to_json, edits)) for edits in spec.switched],
        }
    if spec.turns is not None:
        trial["turns"] = {
            "start": spec.turns.start,
            "steps": spec.turns.slice_steps,
            "first": spec.has_first_turn,
        }
    if plan.takeover is not None:
        trial.update(plan.takeover)
    settings = RecorderSettings(
        windows=spec.takes_window, edits=tuple(map(edit_to_json, spec.edits)), trial=trial
    )
    deadline_s = plan.deadline_s
    if spec.switched:  # it may hang between two steps, fed by loaders that it has not made
        deadline_s = min(deadline_s, _SWITCHING_S[0] + _SWITCHING_S[1] * spec.seconds)
    run_spec = Launched(plan.command, plan.out, settings)
    return isolated.IsolatedRun(
        run_spec, output, deadline_s, prefix, plan.variables, plan.folder, watch=plan.watch
    )


def _describe_arm(
    spec: ArmSpec,
    outcome: isolated.IsolatedOutcome,
    failure: str | None,
    foreign: float | None,
) -> Arm:
    return Arm(
        side=spec.side,
        order=spec.index,
        folder=str(outcome.folder),
        code=outcome.code,
        steps=0,
        step_ns=None,
        first_batch_ns=None,
        start_ns=None,
        turn_ns=None,
        exit_ns=None,
        foreign=foreign,
        failed=failure,
    )


def _load(folder: Path) -> Recording | None:
    try:
        return load(folder)
    except GaplessError:
        return None


def _read_account(recording: Recording) -> Account | None:
    """Return the account of an arm's steps, split further by its window."""
    try:
        recorded = study_recording(recording, Options(diagnose=False), lambda _: None).recorded
    except GaplessError:
        return None
    windowed = None if recorded is None or not recorded.windows else recorded.account
    return None if windowed is None else windowed.account


# ── Why an arm does not count ───────────────────────────────────────────────────────────────────


def _find_failure(
    outcome: isolated.IsolatedOutcome,
    output_text: str,
    recording: Recording | None,
    deadline_s: float,
    was_killed: bool,  # noqa: FBT001 - a process was, for lack of memory
) -> str | None:
    """Return why an arm does not count; ``None``: it does."""
    if not outcome.planned:
        if outcome.timed_out:
            return f"it was not done after {deadline_s:.0f} s"
        if outcome.code:
            return _explain_end(output_text, outcome.code, was_killed)
    if recording is None or not any(process.role == "training" for process in recording.processes):
        return NO_STEPS
    for gap in (gap for process in recording.processes for gap in process.unobserved):
        topic, _, number = gap.what.partition(" ")
        is_switched = number.isdecimal() and int(number) >= FIRST_SWITCHED
        if topic == "edit" and not is_switched:
            return f"an edit could not be made: {gap.why}"[:_MAX_REASON_LENGTH]
    return None


def _explain_end(output_text: str, code: int, was_killed: bool) -> str:  # noqa: FBT001
    if _OUT_OF_MEMORY_TEXT.search(output_text) or (
        was_killed and (code in _KILLED or _WORKER_KILLED in output_text)
    ):
        return OUT_OF_MEMORY
    lines = [line.strip() for line in output_text.splitlines() if line.strip()]
    if code < 0:
        return f"ended by signal {-code}"
    errors = [line for line in lines[-_ADVICE_LINES:] if _ERROR_LINE.match(line)] or lines
    return errors[-1][:_MAX_REASON_LENGTH] if errors else f"it ended with exit code {code}"


def _count_memory_kills() -> int:
    """Return how many processes the kernel has killed for lack of memory, here and in our group."""
    count = 0
    for path in ("/proc/vmstat", "/sys/fs/cgroup/memory.events"):
        with suppress(OSError, ValueError, IndexError):
            words = Path(path).read_text(encoding="ascii").split()
            count += int(words[words.index("oom_kill") + 1])
    return count


# ── Processors that others took ─────────────────────────────────────────────────────────────────


def _busy_ns() -> int | None:
    """Return how long the processors that arms may use were busy since the machine started."""
    with suppress(OSError, ValueError, IndexError):
        allowed_names = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        rows = (row.split() for row in Path("/proc/stat").read_text().splitlines())
        busy = [
            sum(int(row[1 + column]) for column in _BUSY)
            for row in rows
            if row and row[0] in allowed_names
        ]
        return sum(busy) * _TICK_NS if len(busy) == len(allowed_names) else None
    return None


def _foreign_share(before_ns: int | None, wall_ns: int, own_cpu_ns: int | None) -> float | None:
    """Return the share of these processors that was neither idle nor ours since a reading."""
    now_ns = _busy_ns()
    if before_ns is None or now_ns is None or own_cpu_ns is None:
        return None
    return max(0.0, (now_ns - before_ns - own_cpu_ns) / (wall_ns * len(os.sched_getaffinity(0))))
