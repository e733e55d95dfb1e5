"""What changes without torch's switches for finding errors."""

from typing import Final

from gapless.catalogue.queries import windows
from gapless.model.change import Change, HostChange, Omit
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence

LAUNCH_CALLS: Final = ("*LaunchKernel*",)
_USUAL_NS: Final = Estimate(3_000.0, 5_000.0, 10_000.0)  # of a launch that does not wait
CHECK_OPERATOR: Final = "aten::_is_any_true"
_LOADER_CALLS: Final = "enumerate(DataLoader)#*"
_BACKWARD_NODES: Final = "autograd::engine::evaluate_function: *"
# Host time to record a stack: a constant, and a part for each function. In a loop of nothing else
# 51 µs with two functions, 77 with 8, 97 with 15, 131 with 25 (measured with torch 2.13); between
# the operators of a training half as much again (121 with 8, 115 with 12).
_STACK_NS: Final = Estimate(45_000.0, 70_000.0, 110_000.0)
_FUNCTION_NS: Final = Estimate(3_000.0, 5_000.0, 8_000.0)
_USUAL_DEPTH: Final = 13.0  # functions, if no window shows it
_STACK_FUNCTION: Final = "extract_stack"  # of Python: a stack …
_FRAME: Final = "format_frame_summary"  # … and a line of it (one call each since 3.11)
_MIN_REMAINING: Final = 0.1
_OPERATORS: Final = ("idle.host.dispatch", "busy")  # where operators count: on a CPU they are work


def changes_without_waits(evidence: Evidence) -> tuple[Change, ...]:
    """Return what changes if launches do not wait."""
    mean_ns = windows.sum_calls(evidence, *LAUNCH_CALLS).mean_ns
    if not mean_ns:
        return ()
    bounds = (_USUAL_NS.low, _USUAL_NS.mid, _USUAL_NS.high)
    return (HostChange(("idle.launch",), Estimate(*(min(1.0, ns / mean_ns) for ns in bounds))),)


def changes_without_checks(evidence: Evidence) -> tuple[Change, ...]:
    """Return what changes without anomaly detection."""
    n_checks, n_reads = (
        windows.sum_calls(evidence, CHECK_OPERATOR).count,
        windows.sum_calls(evidence, "aten::item").count,
    )
    changes: list[Change] = [Omit((CHECK_OPERATOR, "aten::isnan"))]
    if n_reads:
        changes.append(Omit(("aten::item",), keep=max(0.0, 1 - n_checks / n_reads)))
    stacks_ns, own_ns = _stacks_ns(evidence), _own_ns(evidence)
    if stacks_ns.high and own_ns > 0:
        bounds = (stacks_ns.high, stacks_ns.mid, stacks_ns.low)
        remaining = Estimate(*(max(_MIN_REMAINING, 1 - ns / own_ns) for ns in bounds))
        changes.append(HostChange(_OPERATORS[:1] if evidence.on_device else _OPERATORS, remaining))
    return tuple(changes)


def _stacks_ns(evidence: Evidence) -> Estimate:
    """Return the host's time to record stacks in a step, as many and as deep as windows show.

    Without windows with stacks: one for each node of the backward pass. There may be more (nodes
    that it leaves out) or fewer (those that accumulate gradients live as long as the last loss).
    """
    n_stacks, n_lines = _count_calls(evidence, _STACK_FUNCTION), _count_calls(evidence, _FRAME)
    depth = n_lines / n_stacks if n_stacks and n_lines else _USUAL_DEPTH
    count = (
        n_stacks / windows.count_steps(evidence)
        if n_stacks
        else windows.sum_calls(evidence, _BACKWARD_NODES).count
    )
    return Estimate(
        count * (_STACK_NS.low + depth * _FUNCTION_NS.low),
        count * (_STACK_NS.mid + depth * _FUNCTION_NS.mid),
        count * (_STACK_NS.high + depth * _FUNCTION_NS.high),
    )


def _count_calls(evidence: Evidence, function: str) -> int:
    """Count the calls of a function of Python's ``traceback`` module in windows with stacks."""
    lines = (line for line in evidence.study.tables.lines if line.function == function)
    return sum(line.calls for line in lines if (line.file or "").endswith("traceback.py"))


def _own_ns(evidence: Evidence) -> float:
    """Return the self time of the training's operators in a step, without those of a loader.

    On a device it is that in windows: for other steps only what the device waits for is known. A
    loader without workers makes its batches on the same thread: its calls do not count.
    """
    if not evidence.on_device:
        return evidence.per_step(*_OPERATORS)
    loader_calls = windows.sum_calls(evidence, _LOADER_CALLS)
    return windows.sum_calls(evidence, "aten::*").self_ns - max(
        0.0, loader_calls.host_ns - loader_calls.self_ns
    )
