"""The training's own profiler, left on."""

from typing import Final

from gapless import wire
from gapless.catalogue.declare.rule import rule
from gapless.catalogue.declare.selectors import setting_location, torch_setting
from gapless.catalogue.effects.occasions import PROFILING
from gapless.catalogue.queries import periodic, samples, windows
from gapless.catalogue.queries.periodic import Occasion
from gapless.model.change import Drop, HostChange
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure
from gapless.model.host_code import CallLine

_HOST_LEAVES: Final = ("idle.host", "idle.launch", "idle.sync.refill")
# Two small networks took 1.4 and 1.5 times as long under one on a CPU, 6 and 7 times in a mode, and
# 1.1 to 1.7 times while calls, lines or allocations were watched (benchmarks/watched_steps.py).
_FACTOR: Final = Estimate(0.5, 0.7, 1.0)
_MIN_STEP_SHARE: Final = 0.005  # of the step
_ALWAYS_ON: Final = "A profiler of the training's own is on in all of its steps"
_ENDS: Final = "Starting and stopping the training's own profiler, with the traces it writes"
_MANUAL_REMEDY: Final = (
    "give it a schedule (a few steps, once), or leave it out: gapless has its own windows"
)
_MODE_CALL: Final = ".__torch_dispatch__"
_MIN_MODE_SHARE: Final = 0.02  # of the training thread's time, in calls of the mode
# Modes do more than count, and less: what stays of the host's time is hardly known.
_MODE_FACTOR: Final = Estimate(0.1, 0.46, 1.0)
_MODE_REMEDY: Final = (
    "enter it for one step, and leave it (`with …:`): its figures do not change from step to step"
)
# So much of what the host does beside operators is assumed to stay without them.
_WATCHED_FACTOR: Final = Estimate(0.3, 0.65, 0.95)
_WATCHED_REMEDY: Final = (
    "leave it out, or have it on for a few steps; a debugger that is attached costs the same, "
    "wherever its breakpoints are"
)
_PROFILERS: Final = ("its own profiler", "another profiler")  # why there are no windows of gapless


@rule(
    "G212",
    "profiler-left-on",
    figures="""
    line = ("train.py", 30, "train")
    # torch.profiler around the whole training
    > A profiler of the training's own is on in all of its steps, of 25.0 ms.
    with_steps(with_recorded(evidence_of(gpu(), {"busy.tc_math": 20, "idle.host.dispatch": 5},
      in_windows={}), unobserved=(Unobserved("windows", "the training has its own profiler"),)),
      profiled_only=True)
    # A trace every ten steps
    > Starting and stopping the training's own profiler, with the traces it writes (every 10 steps,
      300.0 ms each) takes 30.0 ms of each 50.0 ms step.
    gpu()
    busy.tc_math 20, idle.io_main.profiling 30
    CallUse("profiling", "train.py", 90, "main", COUNT // 10, 30 * COUNT * MS, 0.1)
    # Operations are counted, in all steps
    > Each operator goes through `FlopCounterMode`, in Python: it is on while the training steps, of
      20.0 ms.
    cpu()
    busy.math 14, idle.host.python 6
    CallLine(*line, "torch/utils/flop_counter.py", f"_FlopCounterMode{_MODE_CALL}", 0.1)
    # A debugger, and tracemalloc
    > Python's calls, lines or allocations are watched in each step, by pydevd (sys.settrace) and
      tracemalloc: the host takes 6.0 ms of each 20.0 ms step.
    cpu(precision(watchers=["pydevd (sys.settrace)", "tracemalloc"]))
    busy.math 14, idle.host.python 6
    # The profiler of a window, seen there
    cpu(precision(watchers=["PyTorch Profiler"]))
    busy.math 14, idle.host.python 6
    # Tensors of a class of torch's own
    cpu()
    busy.math 14, idle.host.python 6
    CallLine(*line, "torch/distributed/tensor/_api.py", f"DTensor{_MODE_CALL}", 0.1)
    # None, or only for some steps
    gpu()
    busy.tc_math 20
    """,
)
def profiler_left_on(evidence: Evidence) -> Detection | None:
    """Recognise that the training's own profiler records all of its steps, or often stops.

    ## Why it costs time
    A profiler records each operator: one to two microseconds each, more with shapes and stacks.
    Host-bound steps take up to twice as long. Each time it stops, the training waits until its
    records are collected and written: seconds for some steps of a large model. A mode that looks
    at each operator in Python (it counts operations, say) costs more than most of them. What looks
    at each call, line or allocation of Python (cProfile, a debugger, coverage, tracemalloc) slows
    all that the host does.

    ## How it is measured
    The recorder sees profilers start and stop, and marks how long that takes, including what is
    written then. It is a fault if no step ran without one; how much longer steps take under it is
    an estimate. A mode is known by samples of the training thread's stack in its calls; how much of
    the step it costs is not. What watches Python is asked of the interpreter, at the edges of some
    steps; what goes of the host's time is assumed, from what small networks took longer.
    """
    recorded, step_ns = evidence.recorded, evidence.step_ns
    if recorded.steps is None or not step_ns:
        return None
    is_reported = any(word in gap.why for gap in recorded.unobserved for word in _PROFILERS)
    is_on = recorded.steps.profiled_only and (bool(recorded.adopted) or is_reported)
    ends = (
        None
        if recorded.footprint is None
        else periodic.find_occasion(evidence, "profiling", PROFILING)
    )
    costly = ends is not None and ends.step_ns >= _MIN_STEP_SHARE * step_ns
    if not (is_on or costly):
        return _watcher_detection(evidence) or _mode_detection(evidence, step_ns)
    cost_words = _cost_words(evidence, ends if costly else None, is_on=is_on)
    return profiler_left_on.detection(
        f"{_ALWAYS_ON if is_on else _ENDS}{cost_words}.",
        Drop((PROFILING,)),
        *((HostChange(_HOST_LEAVES, _FACTOR),) if is_on else ()),
        location=periodic.find_line(evidence, "profiling"),
        measures=(
            Measure("a step", step_ns, "ns"),
            *((Measure("of that, its ends and traces", ends.step_ns, "ns"),) if ends else ()),
        ),
        unsure=None if is_on or ends is None else ends.unsure_reason,
        no_remedy=_MANUAL_REMEDY,
        inferred=is_on,
    )


def _watcher_detection(evidence: Evidence) -> Detection | None:
    watchers = torch_setting(evidence.facts, "watchers")
    if not isinstance(watchers, list):
        return None
    tools = [str(tool) for tool in watchers if tool != wire.TORCHS_TOOL]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if not tools:
        return None
    host_ns = evidence.per_step(*samples.HOST_LEAVES)
    names = " and ".join(tools)
    return profiler_left_on.detection(
        f"Python's calls, lines or allocations are watched in each step, by {names}: the host "
        f"takes {windows.format_step_part(evidence, host_ns)}.",
        HostChange(samples.HOST_LEAVES, _WATCHED_FACTOR),
        location=setting_location(evidence.facts, "watchers_at"),
        measures=(Measure("host beside operators, a step", host_ns, "ns"),),
        no_remedy=_WATCHED_REMEDY,
        inferred=True,
    )


def _mode_detection(evidence: Evidence, step_ns: float) -> Detection | None:
    calls = [call for call in evidence.call_lines if _is_of_mode(call)]
    share = sum(call.share for call in calls)
    if share < _MIN_MODE_SHARE:
        return None
    top = max(calls, key=lambda call: call.share)
    name = top.callee.removesuffix(_MODE_CALL).rpartition(".")[2].lstrip("_")
    leaves = (*samples.HOST_LEAVES, *(() if evidence.on_device else ("busy.",)))
    return profiler_left_on.detection(
        f"Each operator goes through `{name}`, in Python: it is on while the training steps, of "
        f"{windows.ms(step_ns)}.",
        HostChange(leaves, _MODE_FACTOR),
        measures=(Measure("sampled in its calls, of the thread", share, "share"),),
        no_remedy=_MODE_REMEDY,
        inferred=True,
    )


def _is_of_mode(call: CallLine) -> bool:
    """Return whether a call is a mode's: classes of tensors of libraries have it as well."""
    is_library = "site-packages" in call.callee_file or "torch/" in call.callee_file
    return call.callee.endswith(_MODE_CALL) and ("Mode." in call.callee or not is_library)


def _cost_words(evidence: Evidence, ends: Occasion | None, *, is_on: bool) -> str:
    """Return a phrase on the length of a step, or on the time to stop the profiler."""
    if ends is None:
        return f", of {windows.ms(evidence.step_ns or 0)}"
    duration_words = "" if ends.each_ns is None else f", {windows.ms(ends.each_ns)} each"
    words = "; its ends and traces take" if is_on else f" ({ends.frequency}{duration_words}) takes"
    return f"{words} {ends.format_cost(evidence)}"
