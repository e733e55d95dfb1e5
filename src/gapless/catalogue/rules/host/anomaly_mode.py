"""Anomaly detection, left on."""

from typing import Final

from gapless.catalogue.declare.rule import RuleFigure, rule
from gapless.catalogue.declare.selectors import torch_setting
from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.parts import operator
from gapless.catalogue.queries import windows
from gapless.model.change import Change, HostChange, Omit
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure

CHECK_OPERATOR: Final = "aten::_is_any_true"
_LOADER_CALLS: Final = "enumerate(DataLoader)#*"
_BACKWARD_NODES: Final = "autograd::engine::evaluate_function: *"
_MIN_CHECKS: Final = 5  # checks a step
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


@rule(
    "G209",
    "anomaly-mode",
    since="0.1",
    figures=lambda: [
        RuleFigure(
            "torch.autograd.set_detect_anomaly(True)",
            "Anomaly detection is on: 200 results of the backward pass a step are checked for "
            "NaN, and the stack of each operation is recorded.",
            evidence_of(
                example_facts.gpu(example_facts.precision(anomaly=True)),
                {"busy.tc_math": 20, "idle.sync.refill": 10, "idle.host.dispatch": 20},
                operator(CHECK_OPERATOR, calls=200, host_ms=4, device_ms=1),
                operator("aten::item", calls=200, host_ms=20),
                operator("aten::addmm", calls=100, host_ms=15, device_ms=15),
                operator("autograd::engine::evaluate_function: AddmmBackward0", 100, 9, 9),
            ),
        ),
        RuleFigure(
            "Off",
            None,
            evidence_of(
                example_facts.gpu(), {"busy.tc_math": 20}, operator("aten::any", 2, 0.1, 0.1)
            ),
        ),
    ],
)
def anomaly_mode(evidence: Evidence) -> Detection | None:
    """Recognise that torch looks for NaN after each step of the backward pass.

    ## Why it costs time
    Each result of the backward pass is checked, and the host waits for the answer. In the forward
    pass the Python stack of each operation is recorded. It is meant for finding an error, once.

    ## How it is measured
    The setting is a fact of the run, with the line that made it; if it is on for only part of the
    step, and in other traces, the checks show it. The gain is that of leaving out the checks, and
    the stacks at their usual cost, as deep as a window with stacks shows them: a wide interval.
    """
    n_checks = windows.sum_calls(evidence, CHECK_OPERATOR).count
    is_on = None if evidence.facts is None else torch_setting(evidence.facts, "anomaly")
    if not is_on and n_checks < _MIN_CHECKS:  # it may be on within a step only, unobserved
        return None
    return anomaly_mode.detection(
        f"Anomaly detection is on: {windows.format_count(n_checks)} results of the backward pass "
        "a step are checked for NaN, and the stack of each operation is recorded.",
        *changes_without_checks(evidence),
        location=_switch_location(evidence),
        measures=(Measure("checks a step", n_checks, ""),),
        helps=("debug-off",),
        no_remedy=(
            "take set_detect_anomaly(True) out; since it may be meant, gapless tries it only when "
            "asked: gapless try --fix debug-off --override --risky"
        ),
    )


def _switch_location(evidence: Evidence) -> Location | None:
    """Return where it was switched on; ``None`` if that was not observed."""
    line_ref = None if evidence.facts is None else torch_setting(evidence.facts, "anomaly_at")
    file, _, line = line_ref.rpartition(":") if isinstance(line_ref, str) else ("", "", "")
    return Location(file, int(line), None) if file and line.isdecimal() else None


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
