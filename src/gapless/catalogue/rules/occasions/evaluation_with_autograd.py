"""Evaluations that build graphs for a backward pass that never comes."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.effects.occasions import EVALUATION
from gapless.catalogue.queries import windows
from gapless.model.change import HostChange
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import Evaluation, World
from gapless.model.finding import Detection, Measure

_MIN_STEP_SHARE: Final = 0.002  # of the step
_MIN_NODE_RATIO: Final = 0.5  # nodes per parameter: a pass through the model, not a sum
# Host time for a node that is made, keeps its inputs and is thrown away: 2.3 µs where nothing else
# takes time (a chain of tiny layers on one thread, torch 2.13).
_NODE_NS: Final = (1_000.0, 2_300.0)  # at least, likely
# Memory that is kept is not reused at once: in six small networks on one CPU 0 to 42 % of a forward
# pass. A device that runs behind the host may not be affected by either.
_MAX_PASS_SHARE: Final = 0.4


@rule(
    "G704",
    "evaluation-with-autograd",
    figures="""
    # model.eval() alone
    > Evaluation runs with autograd on: 12,400 nodes of graphs that no backward pass uses are made
      each time; it takes 40.0 ms of each 80.0 ms step.
    cpu(evaluation(graphed=8, nodes=8 * 12_400), world(steps=300), evaluation=12)
    busy.math 40, idle.io_main.eval 40
    # Under torch.inference_mode()
    cpu(evaluation(), evaluation=12)
    busy.math 40, idle.io_main.eval 40
    # A sum of the weights, now and then
    cpu(evaluation(graphed=8, nodes=8 * 40), evaluation=12)
    busy.math 40, idle.io_main.eval 40
    # Too short to matter
    gpu(evaluation(graphed=8, nodes=8 * 500), evaluation=12)
    busy.tc_math 40, idle.io_main.eval 0.05
    """,
)
def evaluation_with_autograd(
    evidence: Evidence, evaluation: Evaluation, world: World
) -> Detection | None:
    """Recognise that the graph for a backward pass is built while a model evaluates.

    ## Why it costs time
    ``model.eval()`` changes what layers do (dropout, batch norm), and leaves autograd on: each
    operation makes a node of the graph, and keeps its inputs until the result is thrown away. That
    is time on the host, and memory, which also bounds the batch that fits.

    ## How it is measured
    The recorder reads torch's own count of such nodes where a model is put into evaluation mode,
    and where it is put back into training mode; an interval in which an optimizer stepped does not
    count. The price is not measured: a node costs the host 1 to 2 µs, and kept memory up to 40 % of
    the pass; if a device is behind, perhaps nothing.

    An evaluation that computes gradients itself (attacks, saliency) needs its graphs.
    """
    step_ns, spent_ns = evidence.step_ns, evidence.per_step(EVALUATION)
    if not step_ns or spent_ns < _MIN_STEP_SHARE * step_ns or not evaluation.passes:
        return None
    nodes = evaluation.nodes / evaluation.passes
    if nodes < _MIN_NODE_RATIO * evaluation.tensors:
        return None
    nodes_per_step = nodes * _count_evaluations(evidence, evaluation) / max(1, world.steps)
    return evaluation_with_autograd.detection(
        f"Evaluation runs with autograd on: {nodes:,.0f} nodes of graphs that no backward pass "
        f"uses are made each time; it takes {windows.format_step_part(evidence, spent_ns)}.",
        HostChange(
            (EVALUATION,), _remaining_share(nodes_per_step, spent_ns, on_device=evidence.on_device)
        ),
        location=evaluation.location,
        measures=(
            Measure("nodes, an evaluation", nodes, ""),
            Measure("evaluation, a step", spent_ns, "ns"),
        ),
        no_remedy="Put `with torch.inference_mode():` around the loop that evaluates (or "
        "`torch.no_grad()`, where its results go on into training), by hand: gapless does not "
        "know where that loop ends.",
    )


def _count_evaluations(evidence: Evidence, evaluation: Evaluation) -> float:
    """Return how many evaluations are of this kind; several models share them."""
    passes = sum(record.passes for record in evidence.facts.evaluations)
    return evidence.facts.calls.get("evaluation", 0) * evaluation.passes / passes


def _remaining_share(nodes: float, spent_ns: float, *, on_device: bool) -> Estimate:
    """Return the part of an evaluation that remains without graphs."""
    low, mid = (min(_MAX_PASS_SHARE, nodes * ns / spent_ns) for ns in _NODE_NS)
    if on_device:
        low, mid = 0.0, mid / 2
    return Estimate(1 - _MAX_PASS_SHARE, 1 - mid, 1 - low)
