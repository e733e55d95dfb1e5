"""The user's own profilers: ours make way before theirs starts; what they take is noted.

Their spans are marks, and so is the time in which they start, stop, and write what they saw.

Torch has room for one profiler, so the first that the user makes ends our windows in this process.
A process that another tool observes from outside (Nsight Systems, Nsight Compute) has none at all.
Ranges of NVTX alone are no profiler: scripts keep them when nobody listens.
"""

from __future__ import annotations

import os
from typing import Any

from ... import wire
from .. import declare, patching, recorder
from ..process_state import keep_fields
from . import calls

_OUTSIDE = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID")
_PRELOADED = ("libToolsInjection", "libTreeLauncher", "nsight", "libcuda-injection")

_WRITING = ("export_chrome_trace", "export_stacks", "export_memory_timeline", "key_averages")
# What is done before the first; what made us stop; by id of a profiler when it started.
_profilers = keep_fields(actions=[], name=None, running={}, is_exporting=False)


@declare.at_install
def _look_outside() -> None:
    outside = _observed_from_outside()
    if outside is not None:
        _profilers.name = outside
        recorder.report_unobserved("windows", f"another profiler observes this process ({outside})")


def user_profiler() -> bool:
    """Return whether the user has a profiler of their own in this process."""
    return _profilers.name is not None


def on_user_profiler(action: Any) -> None:
    """Have an action called, once, before the user's first profiler is made or started."""
    _profilers.actions.append(action)


def make_way(name: str) -> None:
    """End what would be in the way of the user's profiler."""
    if _profilers.name is not None:
        return
    _profilers.name = name
    for action in tuple(_profilers.actions):
        patching.guard("profilers")(action)()
    now = recorder.now()
    recorder.mark(wire.USER_PROFILER, now, now, calls.site(), 0)


@declare.hook("torch.autograd.profiler")
def _watch_autograd(module: Any) -> None:
    making = _around_creation()
    for name in ("profile", "emit_nvtx", "emit_itt"):
        owner = getattr(module, name, None)
        if owner is not None:
            calls.replace_all(owner, ("__init__",), making)
    starting = calls.around("profilers", _before_start, _after_start)
    calls.replace_all(module.profile, ("_prepare_trace",), making)
    calls.replace_all(module.profile, ("_start_trace",), starting)
    calls.replace_all(module.profile, ("__exit__",), calls.around("profilers", after=_after_stop))
    for name in ("emit_nvtx", "emit_itt"):
        owner = getattr(module, name, None)
        if owner is not None:
            calls.replace_all(owner, ("__enter__",), making)
    _watch_exports(module.profile)
    _watch_waits(module.profile, "_prepare_trace", "_start_trace", "__exit__", *_WRITING)


@declare.hook("torch.profiler.profiler")
def _watch_kineto(module: Any) -> None:
    owner = module._KinetoProfile
    calls.replace_all(owner, ("__init__", "prepare_trace", "start_trace"), _around_creation())
    _watch_exports(owner)
    _watch_waits(owner, "prepare_trace", "start_trace", "stop_trace", *_WRITING)
    _watch_waits(module.profile, "_trace_ready")


def _watch_waits(owner: Any, *names: str) -> None:
    """Mark the calls in which a profiler of the user's makes the training wait."""
    make = calls.around_outermost(wire.PROFILING, "profiling")
    calls.replace_all(owner, names, make)


@declare.hook("torch.autograd.profiler_legacy")
def _watch_legacy(module: Any) -> None:
    calls.replace_all(module.profile, ("__init__", "__enter__"), _around_creation())
    _watch_exports(module.profile)


@declare.hook("torch.cuda.profiler")
def _watch_cuda(module: Any) -> None:
    calls.replace_all(module, ("start",), _around_creation())


def _around_creation() -> Any:
    return calls.around("profilers", _before_creation)


def _before_creation(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not (user_profiler() or calls.is_ours() or _is_off(args, kwargs)):
        profiler = args[0] if args else None
        make_way("torch.cuda.profiler" if profiler is None else type(profiler).__qualname__)


def _is_off(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a profiler is made or entered that is not to profile: ``enabled=False``.

    Scripts wrap their loop in one that an option of theirs switches on.
    """
    made = args[1] if len(args) > 1 else kwargs.get("enabled")
    return (getattr(args[0], "enabled", None) if args and made is None else made) is False


def _before_start(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    _before_creation(args, kwargs)
    return None if calls.is_ours() else recorder.now()


def _after_start(state: Any, args: tuple[Any, ...], result: Any, raised: Any) -> None:  # noqa: ARG001 - the form of `around`
    if state is not None and raised is None:
        _profilers.running[id(args[0])] = state


def _after_stop(state: Any, args: tuple[Any, ...], result: Any, raised: Any) -> None:  # noqa: ARG001 - the form of `around`
    start = _profilers.running.pop(id(args[0]), None)
    if start is not None:
        recorder.mark(wire.USER_PROFILER, start, recorder.now(), calls.site(), 1)


def _watch_exports(owner: Any) -> None:
    watch = calls.around("profilers", _target, _after_export)
    calls.replace_all(owner, ("export_chrome_trace",), watch)


def _target(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the path of the outermost export that is the user's."""
    if _profilers.is_exporting or calls.is_ours():
        return None
    path = kwargs.get("path", args[1] if len(args) > 1 else None)
    if not isinstance(path, (str, os.PathLike)):
        return None
    _profilers.is_exporting = True
    return os.path.abspath(os.fspath(path))


def _after_export(state: Any, args: tuple[Any, ...], result: Any, raised: Any) -> None:  # noqa: ARG001 - the form of `around`
    if state is None:
        return
    _profilers.is_exporting = False
    if raised is None:
        recorder.write(wire.FILES, {"read": {}, "written": [state], "kind": "trace"})


def _observed_from_outside() -> Any:
    """Return what shows that a tool has put itself into this process, if anything does."""
    for name in _OUTSIDE:
        if os.environ.get(name):
            return name
    preloaded = os.environ.get("LD_PRELOAD", "")
    return "LD_PRELOAD" if any(word in preloaded for word in _PRELOADED) else None
