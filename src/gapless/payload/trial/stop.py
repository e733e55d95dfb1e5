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
from typing import Any

from ... import wire
from .. import imports, patching, recorder
from ..hooks import device_steps

_exit = os._exit  # the real one: what we put in its place would end the recorder once more
HOW = "trial"
AHEAD_S = 1.0  # of steps, between the word that time is over and the last step of all ranks
AHEAD = 3, 200  # in steps: at least, at most
WINDOW_STEPS = 60  # after the planned one a window must be there
RANKS_STEPS = 16  # likewise of several ranks, which leave at the same step whatever became of it
PAUSE_S = 0.5  # other ranks' kernels may still read what this one holds
SAVING_S = 35.0
ENDED_S = 60.0  # within which the launcher ends this process
_AGREED = "trial-stop"  # a file in the spool: the step at which all ranks leave

_iterators: weakref.WeakSet[Any] = weakref.WeakSet()
_plan: dict[str, Any] = {}
_state: dict[str, Any] = {}


def begin(plan: dict[str, Any]) -> None:
    """Leave this process as planned."""
    forget()
    _plan.clear()
    _plan.update(plan)
    recorder.on_edge(_edge)
    if not plan.get("window"):  # of a window the report tells, as of any other run
        device_steps.follow()
    if plan.get("close"):
        imports.when_imported("torch.utils.data.dataloader", _watch)
        imports.when_imported("torchdata.stateful_dataloader.stateful_dataloader", _watch_stateful)


def forget() -> None:
    """Count from the beginning."""
    _iterators.clear()
    _state.clear()
    _state.update(first=0, at=None, leave=None)


def _watch(module: Any) -> None:
    owner = module._MultiProcessingDataLoaderIter
    patching.replace(owner, "__init__", patching.around("trial", None, _made))


def _watch_stateful(module: Any) -> None:
    owner = module._StatefulMultiProcessingDataLoaderIter
    patching.replace(owner, "__init__", patching.around("trial", None, _made))


def _made(_before: Any, args: tuple, _result: Any, raised: Any) -> None:
    if raised is None:
        _iterators.add(args[0])


def _edge(step: int, start: int, end: int) -> None:
    done = step + 1
    if not _state["first"]:
        _state["first"] = start
        _hold_windows()
    if _state["at"] is None and _is_over(done, end):
        _state["at"] = done
        _state["leave"] = done if not _windowed() else done + _window(done)
    if _state["leave"] is not None and (done >= _state["leave"] or _has_window()):
        _leave(done)


# ── When ────────────────────────────────────────────────────────────────────────────────────────


def _is_over(done: int, end: int) -> bool:
    """Tell whether the planned steps are done, or the planned time is over."""
    stop, seconds = _plan.get("stop"), _plan.get("seconds")
    if stop and done >= stop:
        return True
    if not seconds:
        return False
    late = end - _state["first"] >= seconds * 1e9
    return _all_ranks(done, end, late) if _several() else late


def _all_ranks(done: int, end: int, late: bool) -> bool:  # noqa: FBT001
    """Tell whether all ranks leave now: the first whose time is over says at which step."""
    path = os.path.join(os.environ.get(wire.SPOOL, ""), _AGREED)
    if late and not os.path.exists(path):
        step_ns = (end - _state["first"]) / max(1, done)
        ahead = min(AHEAD[1], max(AHEAD[0], int(AHEAD_S * 1e9 / max(1, step_ns))))
        _agree(path, done + ahead)
    try:
        with open(path) as file:
            return done >= int(file.read())
    except (OSError, ValueError):
        return False


def _agree(path: str, step: int) -> None:
    """Write the step down, unless another rank was first; it is there whole or not at all."""
    mine = f"{path}-{os.getpid()}"
    with contextlib.suppress(OSError):
        with open(mine, "w") as file:
            file.write(str(step))
        with contextlib.suppress(FileExistsError):
            os.link(mine, path)
        os.unlink(mine)


def _several() -> bool:
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


def _windowed() -> bool:
    windows = _windows()
    return bool(_plan.get("window")) and windows is not None and windows.planned() is not None


def _hold_windows() -> None:
    windows = _windows()
    if windows is not None and _plan.get("window"):
        windows.hold()


def _window(done: int) -> int:
    """Let a window open from now on; give the steps after which to leave without it."""
    _windows().one(done)
    return RANKS_STEPS if _several() else WINDOW_STEPS


def _has_window() -> bool:
    """Tell whether there is nothing to be waited for. Several ranks leave together, and wait."""
    return not _several() and (not _windowed() or _windows().is_kept())


# ── How ─────────────────────────────────────────────────────────────────────────────────────────


def _leave(step: int) -> None:
    """End this process with success."""
    try:
        _finish(step)
    finally:
        _exit(0)


def _finish(step: int) -> None:
    from .. import boot
    from . import finish

    several = _several()
    _let_others_finish(several)
    _guarded(_save_windows)
    _guarded(lambda: finish(step))
    _guarded(_tell_edits)
    recorder.flush(last=True)  # to end the workers may take longer than anybody waits
    if _plan.get("close"):
        for iterator in list(_iterators):
            _guarded(iterator._shutdown_workers)
    for stream in (sys.stdout, sys.stderr):
        _guarded(lambda stream=stream: stream.flush())
    boot.finish(HOW)
    if os.environ.get(wire.LEAD) not in {None, str(os.getpid())}:
        _await_the_end()


def _guarded(act: Any) -> None:
    try:
        act()
    except BaseException as error:  # a signal handler's, too: nothing of the user's may run now
        recorder.unseen("the end of the trial", repr(error)[:300])


def _let_others_finish(several: bool) -> None:  # noqa: FBT001
    """Wait for what was launched; a rank that left would keep the others in a collective."""
    torch: Any = sys.modules.get("torch")

    def wait() -> None:
        if torch is not None and torch.cuda.is_initialized():
            torch.cuda.synchronize()

    _guarded(wait)
    _guarded(device_steps.drain)
    if several:
        time.sleep(PAUSE_S)


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
    parent, until = os.getppid(), time.monotonic() + ENDED_S
    while time.monotonic() < until and os.getppid() == parent:
        time.sleep(0.05)
