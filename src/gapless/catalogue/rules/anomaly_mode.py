"""Anomaly detection, left on."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.choosing import setting
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import operator
from gapless.model.change import Change, Hosted, Omit
from gapless.model.edit import Where
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.seen import Seen

CHECK: Final = "aten::_is_any_true"
_LOADS: Final = "enumerate(DataLoader)#*"
_NODES: Final = "autograd::engine::evaluate_function: *"
_SOME: Final = 5  # checks a step
# Of the host, for a stack that is written down: so much, and so much for each function of it. In a
# loop of nothing else 51 µs two functions deep, 77 at 8, 97 at 15, 131 at 25 (measured with torch
# 2.13); between the operators of a training half as much again (121 at 8, 115 at 12).
_STACK_NS: Final = Interval(45_000.0, 70_000.0, 110_000.0)
_FUNCTION_NS: Final = Interval(3_000.0, 5_000.0, 8_000.0)
_DEPTH: Final = 13.0  # functions, where no window tells
_WRITTEN: Final = "extract_stack"  # by Python: a stack …
_LINE: Final = "format_frame_summary"  # … and a line of it (one function for each from 3.11 on)
_LEAST_LEFT: Final = 0.1
_OPERATORS: Final = ("idle.host.dispatch", "busy")  # where they are timed: on a CPU they are work


@rule(
    "G209",
    "anomaly-mode",
    since="0.1",
    figures=[
        Figure(
            "torch.autograd.set_detect_anomaly(True)",
            "Anomaly detection is on: 200 results of the backward pass a step are looked through "
            "for NaN, and each operation writes its stack down.",
            stated(
                examples.gpu(examples.precision(anomaly=True)),
                {"busy.tc_math": 20, "idle.sync.refill": 10, "idle.host.dispatch": 20},
                operator(CHECK, calls=200, host_ms=4, device_ms=1),
                operator("aten::item", calls=200, host_ms=20),
                operator("aten::addmm", calls=100, host_ms=15, device_ms=15),
                operator("autograd::engine::evaluate_function: AddmmBackward0", 100, 9, 9),
            ),
        ),
        Figure(
            "Off",
            None,
            stated(examples.gpu(), {"busy.tc_math": 20}, operator("aten::any", 2, 0.1, 0.1)),
        ),
    ],
)
def anomaly_mode(seen: Seen) -> Loss | None:
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
    checks = windowed.calls(seen, CHECK).count
    told = None if seen.facts is None else setting(seen.facts, "anomaly")
    if not told and checks < _SOME:  # it may be on within a step only, when nobody looks
        return None
    return anomaly_mode.loss(
        f"Anomaly detection is on: {windowed.times(checks)} results of the backward pass a step "
        "are looked through for NaN, and each operation writes its stack down.",
        *without_checks(seen),
        where=_place(seen),
        evidence=(Measure("checks a step", checks, ""),),
        helps=("debug-off",),
        no_remedy=(
            "take set_detect_anomaly(True) out; since it may be meant, gapless tries it only when "
            "asked: gapless try --fix debug-off --override --risky"
        ),
    )


def _place(seen: Seen) -> Where | None:
    """Give where it was switched on; ``None``: it was not seen to be."""
    at = None if seen.facts is None else setting(seen.facts, "anomaly_at")
    file, _, line = at.rpartition(":") if isinstance(at, str) else ("", "", "")
    return Where(file, int(line), None) if file and line.isdecimal() else None


def without_checks(seen: Seen) -> tuple[Change, ...]:
    """Give what changes without anomaly detection."""
    checks, reads = windowed.calls(seen, CHECK).count, windowed.calls(seen, "aten::item").count
    found: list[Change] = [Omit((CHECK, "aten::isnan"))]
    if reads:
        found.append(Omit(("aten::item",), keep=max(0.0, 1 - checks / reads)))
    written, own = _stacks_ns(seen), _own_ns(seen)
    if written.high and own > 0:
        ends = (written.high, written.mid, written.low)
        left = Interval(*(max(_LEAST_LEFT, 1 - ns / own) for ns in ends))
        found.append(Hosted(_OPERATORS[:1] if seen.on_device else _OPERATORS, left))
    return tuple(found)


def _stacks_ns(seen: Seen) -> Interval:
    """Give what the host takes to write stacks down, a step: as many, and as deep, as windows show.

    Where no window has stacks: one for each node of the backward pass. There are more (nodes that
    it leaves out) or fewer (those that add up gradients live on while the last step's loss does).
    """
    many, lines = _taken(seen, _WRITTEN), _taken(seen, _LINE)
    deep = lines / many if many and lines else _DEPTH
    count = many / windowed.steps(seen) if many else windowed.calls(seen, _NODES).count
    return Interval(
        count * (_STACK_NS.low + deep * _FUNCTION_NS.low),
        count * (_STACK_NS.mid + deep * _FUNCTION_NS.mid),
        count * (_STACK_NS.high + deep * _FUNCTION_NS.high),
    )


def _taken(seen: Seen, function: str) -> int:
    """Count the calls of a function of Python's own ``traceback`` in windows with stacks."""
    rows = (one for one in seen.study.tables.lines if one.function == function)
    return sum(one.calls for one in rows if (one.file or "").endswith("traceback.py"))


def _own_ns(seen: Seen) -> float:
    """Give what operators of the training take themselves, a step, those of a loader left out.

    On a device as windows have it: of plain steps only what the device waits for is known. A loader
    without workers makes its batches on the same thread: what it calls is not the step's.
    """
    if not seen.on_device:
        return seen.per_step(*_OPERATORS)
    loads = windowed.calls(seen, _LOADS)
    return windowed.calls(seen, "aten::*").own_ns - max(0.0, loads.host_ns - loads.own_ns)
