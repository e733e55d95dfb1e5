"""Leave at the planned step: at once, from the edge of the step, and well.

No ``finally``, ``except`` or ``atexit`` of the user's runs. A process that the launcher did not
start itself does not end before the launcher ends it, parents first: a script that waits for it
would go on to what comes after the training.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import weakref
from typing import TYPE_CHECKING, Any

from ... import wire
from .. import imports, patching, recorder
from ..hooks import device_steps
from ..process_state import keep

if TYPE_CHECKING:
    from typing import NoReturn

_exit = os._exit  # the real one: what we put in its place would end the recorder once more
EXIT_KIND = "trial"
AHEAD_S = 1.0  # of steps, between the word that time is over and the last step of all ranks
AHEAD = 3, 200  # in steps: at least, at most
WINDOW_STEPS = 60  # after the planned one a window must be there
RANKS_STEPS = 16  # likewise of several ranks, which leave at the same step whatever became of it
PAUSE_S = 0.5  # other ranks' kernels may still read what this one holds
SAVING_S = 35.0
END_PATIENCE_S = 60.0  # within which the launcher ends this process
_STOP_FILE = "trial-stop"  # a file in the spool: the step at which all ranks leave


class _Departure:
    """The plan, how far it has come, and what is called when the process leaves."""

    def __init__(self) -> None:
        self.plan: dict[str, Any] = {}
        self.write_outcome: Any = None
        self.end_process: Any = None
        self.fork()

    def fork(self) -> None:
        """Count from the beginning."""
        self.iterators: weakref.WeakSet[Any] = weakref.WeakSet()
        self.first_ns = 0
        self.reached: int | None = None  # steps after which the plan was done
        self.last: int | None = None  # and after which the process leaves at the latest


_departure = keep(_Departure())


def begin(plan: dict[str, Any], write_outcome: Any, end_process: Any) -> None:
    """Leave this process as planned.

    Before it leaves, ``write_outcome(step)`` and then ``end_process(EXIT_KIND)`` are called.
    """
    _departure.fork()
    _departure.write_outcome, _departure.end_process = write_outcome, end_process
    _departure.plan = dict(plan)
    recorder.on_edge(_edge)
    if not plan.get("window"):  # a window shows it, as of any other run
        device_steps.follow()
    if plan.get("close"):
        imports.when_imported("torch.utils.data.dataloader", _watch)
        imports.when_imported("torchdata.stateful_dataloader.stateful_dataloader", _watch_stateful)


def leave_now() -> None:
    """Leave at the next edge, whatever was planned."""
    _departure.plan["stop"] = 1


def leave_at_once() -> NoReturn:
    """Leave here, in the middle of a step: nothing of the user's runs any more."""
    _leave(0)
    raise SystemExit  # never: it left


def close_workers() -> None:
    """End the workers of the loaders that are gone through (where the plan says "close")."""
    for iterator in list(_departure.iterators):
        _run_safely(iterator._shutdown_workers)


def _watch(module: Any) -> None:
    owner = module._MultiProcessingDataLoaderIter
    patching.replace(owner, "__init__", patching.around("trial", None, _after_init))


def _watch_stateful(module: Any) -> None:
    owner = module._StatefulMultiProcessingDataLoaderIter
    patching.replace(owner, "__init__", patching.around("trial", None, _after_init))


def _after_init(_before: Any, args: tuple, _result: Any, raised: Any) -> None:
    if raised is None:
        _departure.iterators.add(args[0])


def _edge(step: int, start: int, end: int) -> None:
    steps_done = step + 1
    if not _departure.first_ns:
        _departure.first_ns = start
        _hold_windows()
    if _departure.reached is None and _is_over(steps_done, end):
        _departure.reached = steps_done
        _departure.last = steps_done if not _takes_window() else steps_done + _window(steps_done)
    if _departure.last is not None and (steps_done >= _departure.last or _has_window()):
        _leave(steps_done)


# ── When ────────────────────────────────────────────────────────────────────────────────────────


def _is_over(steps_done: int, end: int) -> bool:
    """Return whether the planned steps are done, or the planned time is over."""
    stop, seconds = _departure.plan.get("stop"), _departure.plan.get("seconds")
    if stop and steps_done >= stop:
        return True
    if not seconds:
        return False
    late = end - _departure.first_ns >= seconds * 1e9
    return _all_ranks(steps_done, end, late) if _has_several_ranks() else late


def _all_ranks(steps_done: int, end: int, late: bool) -> bool:  # noqa: FBT001
    """Return whether all ranks leave now: the first whose time is over decides at which step."""
    path = os.path.join(os.environ.get(wire.SPOOL, ""), _STOP_FILE)
    if late and not os.path.exists(path):
        step_ns = (end - _departure.first_ns) / max(1, steps_done)
        ahead = min(AHEAD[1], max(AHEAD[0], int(AHEAD_S * 1e9 / max(1, step_ns))))
        _agree(path, steps_done + ahead)
    try:
        with open(path) as file:
            return steps_done >= int(file.read())
    except (OSError, ValueError):
        return False


def _agree(path: str, step: int) -> None:
    """Write the step down, unless another rank was first; it is there whole or not at all."""
    own_path = f"{path}-{os.getpid()}"
    with contextlib.suppress(OSError):
        with open(own_path, "w") as file:
            file.write(str(step))
        with contextlib.suppress(FileExistsError):
            os.link(own_path, path)
        os.unlink(own_path)


def _has_several_ranks() -> bool:
    if os.environ.get("WORLD_SIZE", "1") not in {"", "1"}:
        return True
    distributed = sys.modules.get("torch.distributed")
    with contextlib.suppress(AttributeError, RuntimeError, ValueError):
        return bool(distributed and distributed.is_initialized()) and (
            distributed.get_world_size() > 1  # type: ignore[union-attr]
        )
    return False


# ── One window, after the planned step ──────────────────────────────────────────────────────────


_WINDOWS = f"{imports.__package__}.windows"


def _windows() -> Any:
    return sys.modules.get(_WINDOWS)


def _takes_window() -> bool:
    windows = _windows()
    return (
        bool(_departure.plan.get("window"))
        and windows is not None
        and windows.planned() is not None
    )


def _hold_windows() -> None:
    windows = _windows()
    if windows is not None and _departure.plan.get("window"):
        windows.hold()


def _window(steps_done: int) -> int:
    """Let a window open from now on; return the steps after which to leave without it."""
    _windows().one(steps_done)
    return RANKS_STEPS if _has_several_ranks() else WINDOW_STEPS


def _has_window() -> bool:
    """Return whether there is nothing to be waited for. Several ranks leave together, and wait."""
    return not _has_several_ranks() and (not _takes_window() or _windows().is_kept())


# ── How ─────────────────────────────────────────────────────────────────────────────────────────


def _leave(step: int) -> None:
    """End this process with success."""
    try:
        _finish(step)
    finally:
        _exit(0)


def _finish(step: int) -> None:
    has_peers = _has_several_ranks()
    _let_others_finish(has_peers)
    _run_safely(_save_windows)
    _run_safely(lambda: _departure.write_outcome(step))
    _run_safely(_tell_edits)
    recorder.flush(last=True)  # to end the workers may take longer than anybody waits
    if _departure.plan.get("close"):
        close_workers()
    for stream in (sys.stdout, sys.stderr):
        _run_safely(lambda stream=stream: stream.flush())
    _departure.end_process(EXIT_KIND)
    if os.environ.get(wire.LEAD) not in {None, str(os.getpid())}:
        _await_the_end()


def _run_safely(action: Any) -> None:
    try:
        action()
    except BaseException as error:  # a signal handler's, too: nothing of the user's may run now
        recorder.report_unobserved("the end of the trial", repr(error)[:300])


def _let_others_finish(has_peers: bool) -> None:  # noqa: FBT001
    """Wait for what was launched; a rank that left would keep the others in a collective."""
    torch: Any = sys.modules.get("torch")

    def wait() -> None:
        if torch is not None and torch.cuda.is_initialized():
            torch.cuda.synchronize()

    _run_safely(_mark_last_edge)
    _run_safely(wait)
    _run_safely(device_steps.drain)
    if has_peers:
        time.sleep(PAUSE_S)


def _mark_last_edge() -> None:
    """Mark when the device comes to the last step's end: a host far ahead of it marks few edges."""
    last_edge = recorder.last_edge()
    if last_edge is not None:
        device_steps.link(last_edge[1])


def _tell_edits() -> None:
    edits = sys.modules.get(f"{imports.__package__}.overlay")
    if edits is not None:
        edits.finish()


def _save_windows() -> None:
    windows = _windows()
    if windows is not None:
        windows.save_all(SAVING_S)


def _await_the_end() -> None:
    """Wait to be ended, as long as somebody is there to do it."""
    parent, until = os.getppid(), time.monotonic() + END_PATIENCE_S
    while time.monotonic() < until and os.getppid() == parent:
        time.sleep(0.05)
