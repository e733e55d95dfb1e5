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
_NODES: Final = "autograd::engine::evaluate_function: *"
_SOME: Final = 5  # checks a step
# Of the host, for the stack that is written down with each node of the graph: 51 µs two functions
# deep, 77 at 8, 97 at 15, 131 at 25 (measured with torch 2.13). Nodes that the backward pass leaves
# out have one too.
_STACK_NS: Final = Interval(80_000.0, 130_000.0, 200_000.0)
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
    leaving them out, and the stacks at what they usually cost: a wide interval.
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
    nodes = windowed.calls(seen, _NODES).count
    own = windowed.calls(seen, "aten::*").own_ns
    if nodes and own:
        ends = (_STACK_NS.high, _STACK_NS.mid, _STACK_NS.low)
        left = Interval(*(max(_LEAST_LEFT, 1 - nodes * ns / own) for ns in ends))
        found.append(Hosted(_OPERATORS[:1] if seen.on_device else _OPERATORS, left))
    return tuple(found)
