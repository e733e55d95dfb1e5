"""Anomaly detection, left on."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.choosing import torch_setting
from gapless.catalogue.ruling import RuleFigure, rule
from gapless.catalogue.seen_examples import evidence_of as stated
from gapless.catalogue.seen_parts import operator
from gapless.model.change import Change, HostChange, Omit
from gapless.model.edit import Location
from gapless.model.finding import Detection, Measure
from gapless.model.interval import Estimate
from gapless.model.seen import Evidence

CHECK_OPERATOR: Final = "aten::_is_any_true"
_LOADER_CALLS: Final = "enumerate(DataLoader)#*"
_BACKWARD_NODES: Final = "autograd::engine::evaluate_function: *"
_MIN_CHECKS: Final = 5  # checks a step
# Of the host, for a stack that is written down: so much, and so much for each function of it. In a
# loop of nothing else 51 µs two functions deep, 77 at 8, 97 at 15, 131 at 25 (measured with torch
# 2.13); between the operators of a training half as much again (121 at 8, 115 at 12).
_STACK_NS: Final = Estimate(45_000.0, 70_000.0, 110_000.0)
_FUNCTION_NS: Final = Estimate(3_000.0, 5_000.0, 8_000.0)
_USUAL_DEPTH: Final = 13.0  # functions, where no window tells
_STACK_FUNCTION: Final = "extract_stack"  # by Python: a stack …
_FRAME: Final = "format_frame_summary"  # … and a line of it (one function for each from 3.11 on)
_MIN_REMAINING: Final = 0.1
_OPERATORS: Final = ("idle.host.dispatch", "busy")  # where they are timed: on a CPU they are work


@rule(
    "G209",
    "anomaly-mode",
    since="0.1",
    figures=[
        RuleFigure(
            "torch.autograd.set_detect_anomaly(True)",
            "Anomaly detection is on: 200 results of the backward pass a step are looked through "
            "for NaN, and each operation writes its stack down.",
            stated(
                examples.gpu(examples.precision(anomaly=True)),
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
            stated(examples.gpu(), {"busy.tc_math": 20}, operator("aten::any", 2, 0.1, 0.1)),
        ),
    ],
)
def anomaly_mode(evidence: Evidence) -> Detection | None:
    """Recognise that torch looks for NaN after each step of the backward pass.

    ## Why it costs time
    Each result of the backward pass is looked through, and the host waits for the answer. In the
    forward pass the Python stack of each operation is written down. It is meant for finding an
    error, once.

    ## How it is measured
    The setting is a fact of the run, with the line that made it; where it is on for a part of the
    step only, and in other traces, the checks betray it. The gain follows from
    leaving them out, and the stacks at what they usually cost, as deep as a window with stacks
    shows them: a wide interval.
    """
    n_checks = windowed.sum_calls(evidence, CHECK_OPERATOR).count
    is_on = None if evidence.facts is None else torch_setting(evidence.facts, "anomaly")
    if not is_on and n_checks < _MIN_CHECKS:  # it may be on within a step only, when nobody looks
        return None
    return anomaly_mode.detection(
        f"Anomaly detection is on: {windowed.format_count(n_checks)} results of the backward pass a step "
        "are looked through for NaN, and each operation writes its stack down.",
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
    """Return where it was switched on; ``None``: it was not seen to be."""
    line_ref = None if evidence.facts is None else torch_setting(evidence.facts, "anomaly_at")
    file, _, line = line_ref.rpartition(":") if isinstance(line_ref, str) else ("", "", "")
    return Location(file, int(line), None) if file and line.isdecimal() else None


def changes_without_checks(evidence: Evidence) -> tuple[Change, ...]:
    """Return what changes without anomaly detection."""
    n_checks, n_reads = windowed.sum_calls(evidence, CHECK_OPERATOR).count, windowed.sum_calls(evidence, "aten::item").count
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
    """Return what the host takes to write stacks down, a step: as many, and as deep, as windows show.

    Where no window has stacks: one for each node of the backward pass. There are more (nodes that
    it leaves out) or fewer (those that add up gradients live on while the last step's loss does).
    """
    n_stacks, n_lines = _count_calls(evidence, _STACK_FUNCTION), _count_calls(evidence, _FRAME)
    depth = n_lines / n_stacks if n_stacks and n_lines else _USUAL_DEPTH
    count = n_stacks / windowed.count_steps(evidence) if n_stacks else windowed.sum_calls(evidence, _BACKWARD_NODES).count
    return Estimate(
        count * (_STACK_NS.low + depth * _FUNCTION_NS.low),
        count * (_STACK_NS.mid + depth * _FUNCTION_NS.mid),
        count * (_STACK_NS.high + depth * _FUNCTION_NS.high),
    )


def _count_calls(evidence: Evidence, function: str) -> int:
    """Count the calls of a function of Python's own ``traceback`` in windows with stacks."""
    lines = (line for line in evidence.study.tables.lines if line.function == function)
    return sum(line.calls for line in lines if (line.file or "").endswith("traceback.py"))


def _own_ns(evidence: Evidence) -> float:
    """Return what operators of the training take themselves, a step, those of a loader left out.

    On a device as windows have it: of plain steps only what the device waits for is known. A loader
    without workers makes its batches on the same thread: what it calls is not the step's.
    """
    if not evidence.on_device:
        return evidence.per_step(*_OPERATORS)
    loader_calls = windowed.sum_calls(evidence, _LOADER_CALLS)
    return windowed.sum_calls(evidence, "aten::*").self_ns - max(0.0, loader_calls.host_ns - loader_calls.self_ns)
