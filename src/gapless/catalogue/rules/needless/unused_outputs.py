"""Outputs that are computed in each step, and that no loss uses."""

from math import prod
from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import optimizer_steps, windows
from gapless.catalogue.queries.compute import ns_per_window_step, work_of
from gapless.catalogue.queries.products import select_forward_only, weight_of
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure
from gapless.model.work import Work
from gapless.roofline.roofline import NO_CHANGE, scale_changes

_ACCUMULATE: Final = "torch::autograd::AccumulateGrad"
_MIN_STEP_SHARE: Final = 0.01  # of the step
_REMAINS: Final = Estimate(0.0, 0.02, 0.3)  # of the products, which are inferred to be unused
_MAX_WEIGHT_RATIO: Final = 1.1  # norms and biases have numbers, too


@rule(
    "G514",
    "unused-outputs",
    figures="""
    linear(weight) = example_work("aten::linear", ((64, 784), weight, weight[:1]), 8, "busy.math")
    product(inputs, ms) = example_work("aten::mm", (inputs, (64, 784)), ms, "busy.math",
      backward=True)
    gradients(used) = (product((2048, 64), 8),) if used else ()
    product_rows(*, used) = (operator(_ACCUMULATE, calls=10 if used else 6, host_ms=1),
      linear((256, 784)), product((256, 64), 16), linear((2048, 784)), *gradients(used))
    ungraded = {"ungraded": 4, "ungraded_parameters": 3_300_000}
    # An auxiliary head whose output goes into no loss
    > 4 tensors of parameters never get a gradient: computing with them, which no loss uses, takes
      8.0 ms of each 32.0 ms step.
    cpu(optimizer(tensors=10, **ungraded))
    busy.math 32
    *product_rows(used=False)
    # Its loss counts later on
    cpu(optimizer(tensors=10, **ungraded))
    busy.math 40
    *product_rows(used=True)
    # A frozen layer: it requires no gradient
    cpu(optimizer(tensors=10, ungraded=0, ungraded_parameters=0))
    busy.math 32
    *product_rows(used=False)
    """,
)
def unused_outputs(evidence: Evidence) -> Detection | None:
    """Recognise layers that are trained, and computed in each step, whose outputs no loss uses.

    ## Why it costs time
    A head for a loss that was left out, a decoder whose output is only returned, a branch from an
    older experiment: the forward pass computes them whether they are used or not. Their parameters
    never learn.

    ## How it is measured
    By parameters of the optimizer that require a gradient and had none at its first step, while the
    backward passes of the windows store only the gradients of the others; and by forward products
    with weights of sizes that no backward product has, as long as these weights are not larger than
    those parameters. So it is inferred. Frozen layers do not count: they require no gradient.
    """
    optimizers = evidence.facts.optimizers
    count = sum(optimizer.ungraded or 0 for optimizer in optimizers)
    n_numbers = sum(optimizer.ungraded_parameters or 0 for optimizer in optimizers)
    n_tensors, step_ns = optimizer_steps.count_tensors(evidence), evidence.step_ns
    if not count or n_tensors is None or not step_ns:
        return None
    if not 0 < windows.sum_calls(evidence, _ACCUMULATE).count <= n_tensors - count:
        return None
    rows = _rows_within(select_forward_only(work_of(evidence)), n_numbers)
    spent_ns = ns_per_window_step(evidence, sum(row.ns for row in rows))
    if spent_ns < _MIN_STEP_SHARE * step_ns:
        return None
    row_ids = set(map(id, rows))
    return unused_outputs.detection(
        f"{count} tensors of parameters never get a gradient: computing with them, which no loss "
        f"uses, takes {windows.format_step_part(evidence, spent_ns)}.",
        *scale_changes(
            evidence.study.work, lambda row: _REMAINS if id(row) in row_ids else NO_CHANGE
        ),
        location=windows.find_calling_function(evidence, *(row.operator for row in rows)),
        measures=(
            Measure("parameters without a gradient", count, ""),
            Measure("products that no backward pass follows, a step", spent_ns, "ns"),
        ),
        no_remedy=(
            "leave out what computes these outputs, and their parameters of the optimizer; or add "
            "the loss that was forgotten"
        ),
        inferred=True,
    )


def _rows_within(rows: tuple[Work, ...], n_numbers: int) -> tuple[Work, ...]:
    """Return the rows if their weights together have at most so many elements; else none."""
    weights = {weight for row in rows if (weight := weight_of(row)) is not None}
    return rows if sum(prod(weight) for weight in weights) <= _MAX_WEIGHT_RATIO * n_numbers else ()
