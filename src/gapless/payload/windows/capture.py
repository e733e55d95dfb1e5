"""One stretch under torch's profiler, started and stopped below its Python class.

Torch 2.4 to 2.13: what their native functions take differs, so each is tried with less. Nothing
here parses events, synchronises a device, or makes a context on one.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

from .. import tracebacks
from ..process_state import keep_fields
from . import cupti

OWN_KEY = "gapless"  # of the trace file's own metadata: what the window is
ALL_THREADS = "profile_all_threads"
_SYNCS = "enable_cuda_sync_events"
# Threads that run no operators, by their names and classes: of queues, of progress bars.
_QUIET_THREADS = ("QueueFeederThread", "TMonitor")
# The thread that loads torch, now or before; whether the profiler is ready.
_kineto = keep_fields(thread=threading.get_ident(), is_ready=False)
_WAITS = "threading.py"  # where the first thread stands while it waits for others
OTHERS_COMPUTE = "another thread may compute when a window closes: recorded too, it might crash"
_QUIET = 2  # torch from which on its profiler prints nothing when it starts and stops
_INJECTORS = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "KINETO_USE_DAEMON")


def obstacle() -> str | None:
    """Return why torch's profiler must not be started now; ``None`` if it may."""
    import torch
    from torch._C import _autograd

    if int(torch.__version__.partition(".")[0]) < _QUIET:
        return f"the profiler of torch {torch.__version__} prints lines of its own"
    switched_on = getattr(torch.autograd.profiler, "_is_profiler_enabled", False)
    if _autograd._profiler_enabled() or switched_on:
        return "a profiler is on already"
    for name in _INJECTORS:
        if os.environ.get(name):
            return f"another profiler may own the device: {name} is set"
    if not _kineto.is_ready and _kineto.thread != threading.get_ident():  # it prints an error
        return (
            "what steps is another thread than that which loaded torch: its profiler begins there"
        )
    return None


def no_stacks() -> str | None:
    """Return why Python stacks must not be recorded now: somebody else looks at the calls."""
    if sys.getprofile() is not None or threading._profile_hook is not None:
        return "the training has a profile function"
    if sys.gettrace() is not None:
        return "the training has a trace function"
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None and any(monitoring.get_tool(tool) for tool in range(6)):
        return "another tool monitors the training"
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "Python runs without its global lock"
    return None


def others_may_compute() -> bool:
    """Return whether a thread beside this one may run operators when the profiler stops.

    With all threads recorded, each calls into the one profiler of the process. Until it waits for
    them, a thread that is inside of an operator when it stops crashes the process: one that pins
    batches, say (pytorch#185741, mended by #187483). Threads that are done at the edge of a step do
    no harm: those of a backward pass and of ``DataParallel``. Nor do ours, which ``threading`` does
    not list, nor the first one while it waits for another, which trains.
    """
    try:
        return _names_one_that_computes(sys._current_frames(), threading._active.copy())
    except Exception as error:  # a name of the user's own thread may be a property that fails
        tracebacks.pass_on(error)
        return True


def _names_one_that_computes(frames: dict[int, Any], threads: dict[int, Any]) -> bool:
    this, first = threading.get_ident(), threading.main_thread().ident
    for ident, thread in threads.items():
        frame = frames.get(ident)
        if ident == this or frame is None:  # it has ended, or never was one of Python's
            continue
        is_waiting = ident == first and os.path.basename(frame.f_code.co_filename) == _WAITS
        name = f"{thread.name} {type(thread).__name__}"
        if not is_waiting and not any(quiet in name for quiet in _QUIET_THREADS):
            return True
    return False


class ProfilerCapture:
    """The profiler, on since this was made."""

    def __init__(self, *, stacks: bool) -> None:
        import torch
        from torch._C import _autograd
        from torch._C import _profiler as native

        self._torch, self._autograd = torch, _autograd
        self.stacks = stacks
        self.all_threads = False
        self.alone = "this torch records one thread alone"  # why, where it records no others
        self.detached = False  # from the device's driver, behind it
        self.cuda = torch.cuda.is_initialized()
        if self.cuda:
            cupti.before_window(torch)
        self._functions = sys.getprofile(), threading._profile_hook
        activities = self._activities(native)
        self._on_device = native.ProfilerActivity.CUDA in activities
        config = self._config(native)
        has_begun = False  # not asked of torch: it knows of a profiler of this thread alone
        try:
            _autograd._prepare_profiler(config, activities)
            _notify_torch(torch, "_run_on_profiler_start")
            has_begun = True
            _autograd._enable_profiler(config, activities)
            _kineto.is_ready = True
        except BaseException as error:
            if isinstance(error, RuntimeError) and not tracebacks.from_a_signal_handler(error):
                _notify_torch(torch, "_run_on_profiler_stop")
                raise
            # A signal came meanwhile: its handler runs right behind a call. Left on, the profiler
            # would crash the process at its end; what is prepared ends only by being on.
            if not has_begun:
                _autograd._enable_profiler(config, activities)
            self.stop()
            raise

    def _activities(self, native: Any) -> set[Any]:
        kinds = {native.ProfilerActivity.CPU}
        device = native.ProfilerActivity.CUDA
        if self.cuda and device in self._autograd._supported_activities():
            kinds.add(device)
        return kinds

    def _config(self, native: Any) -> Any:
        extras = self._extras(native)
        basis = (native.ProfilerState.KINETO, True, False, self.stacks, False, False, extras)
        try:
            return native.ProfilerConfig(*basis, f"{os.getpid():08X}{time.monotonic_ns():024X}")
        except TypeError:  # before torch 2.6
            return native.ProfilerConfig(*basis)

    def _extras(self, native: Any) -> Any:
        choices: tuple[tuple[str, ...], ...] = ((_SYNCS, ALL_THREADS), (_SYNCS,), ())
        if others_may_compute():
            self.alone, choices = OTHERS_COMPUTE, choices[1:]
        for names in choices:
            try:
                config = native._ExperimentalConfig(**dict.fromkeys(names, True))
            except TypeError:
                continue
            self.all_threads = ALL_THREADS in names
            return config
        return native._ExperimentalConfig()

    def describe(self, values: dict[str, Any]) -> None:
        """Write into the trace file what the window is, and the ranks of the job."""
        add = self._autograd._add_metadata_json
        add(OWN_KEY, json.dumps(values))
        add("record_shapes", "1")
        if self.stacks:
            add("with_stack", "1")
        ranks = ranks_of_job()
        if ranks is not None:
            add("distributedInfo", json.dumps(ranks))

    def stop(self) -> Any:
        """Stop the profiler and return its result; what else looked at calls is there as before."""
        detachment = cupti.Detachment()
        try:
            return self._autograd._disable_profiler()
        finally:
            _notify_torch(self._torch, "_run_on_profiler_stop")
            if self.stacks:
                self._restore()
            self.detached = detachment.settle() and self._on_device

    def _restore(self) -> None:
        function, hook = self._functions
        if sys.getprofile() is not function:
            sys.setprofile(function)
        if threading._profile_hook is not hook:
            threading._profile_hook = hook


def ranks_of_job() -> dict[str, Any] | None:
    """Return backend, rank and world size as torch's profiler writes them; ``None``: no job."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return {
        "backend": distributed.get_backend(),
        "rank": distributed.get_rank(),
        "world_size": distributed.get_world_size(),
    }


def _notify_torch(torch: Any, name: str) -> None:
    """Let torch's own Python know, as its profiler does: compiled code adds ranges then."""
    callback = getattr(torch.autograd.profiler, name, None)
    if callback is not None:
        callback()
