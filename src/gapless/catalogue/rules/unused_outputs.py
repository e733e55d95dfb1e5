"""Outputs that are computed in each step, and that no loss uses."""

from collections.abc import Mapping
from math import prod
from typing import Final

from gapless.catalogue import examples, optimizing, windowed
from gapless.catalogue.computing import ns_per_window_step, work_of
from gapless.catalogue.products import select_forward_only, weight_of
from gapless.catalogue.ruling import RuleFigure, rule
from gapless.catalogue.seen_examples import evidence_of as stated
from gapless.catalogue.seen_parts import operator
from gapless.catalogue.work_examples import example_work
from gapless.model.finding import Detection, Measure
from gapless.model.interval import Estimate
from gapless.model.seen import Evidence
from gapless.model.work import Work
from gapless.replay.roofline import NO_CHANGE, scale_changes

_ACCUMULATE: Final = "torch::autograd::AccumulateGrad"
_MIN_STEP_SHARE: Final = 0.01  # of the step
_REMAINS: Final = Estimate(0.0, 0.02, 0.3)  # of the products: that they are all unused is inferred
_MAX_WEIGHT_RATIO: Final = 1.1  # norms and biases have numbers, too


def _product_rows(*, used: bool) -> tuple[object, ...]:
    gradient_rows = (example_work("aten::mm", ((2048, 64), (64, 784)), 8, "busy.math", backward=True),)
    return (
        operator(_ACCUMULATE, calls=10 if used else 6, host_ms=1),
        example_work("aten::linear", ((64, 784), (256, 784), (256,)), 8, "busy.math"),
        example_work("aten::mm", ((256, 64), (64, 784)), 16, "busy.math", backward=True),
        example_work("aten::linear", ((64, 784), (2048, 784), (2048,)), 8, "busy.math"),
        *(gradient_rows if used else ()),
    )


_UNGRADED: Final[Mapping[str, int]] = {"ungraded": 4, "ungraded_parameters": 3_300_000}


@rule(
    "G514",
    "unused-outputs",
    since="0.1",
    figures=[
        RuleFigure(
            "An auxiliary head whose output goes into no loss",
            "4 tensors of parameters never get a gradient: computing with them, which no loss "
            "uses, takes 8.0 ms of each 32.0 ms step.",
            stated(
                examples.cpu(examples.optimizer(tensors=10, **_UNGRADED)),
                {"busy.math": 32},
                *_product_rows(used=False),
            ),
        ),
        RuleFigure(
            "Its loss counts later on",
            None,
            stated(
                examples.cpu(examples.optimizer(tensors=10, **_UNGRADED)),
                {"busy.math": 40},
                *_product_rows(used=True),
            ),
        ),
        RuleFigure(
            "A frozen layer: it asks for no gradient",
            None,
            stated(
                examples.cpu(examples.optimizer(tensors=10, ungraded=0, ungraded_parameters=0)),
                {"busy.math": 32},
                *_product_rows(used=False),
            ),
        ),
    ],
)
def unused_outputs(evidence: Evidence) -> Detection | None:
    """Recognise layers that are trained, and computed in each step, whose outputs no loss uses.

    ## Why it costs time
    A head for a loss that was left out, a decoder whose output is only returned, a branch from an
    older experiment: the forward pass computes them whether anybody looks at them or not. Their
    parameters never learn.

    ## How it is measured
    By parameters of the optimizer that ask for a gradient and had none at its first step, while the
    backward passes of the windows store no more gradients than the others'; and by forward products
    with weights that no product of a backward pass has the size of, as long as these weights are
    not larger than those parameters. So it is inferred. What frozen layers compute is none: they
    ask for no gradient.
    """
    optimizers = () if evidence.facts is None else evidence.facts.optimizers
    count = sum(optimizer.ungraded or 0 for optimizer in optimizers)
    n_numbers = sum(optimizer.ungraded_parameters or 0 for optimizer in optimizers)
    n_tensors, step_ns = optimizing.count_tensors(evidence), evidence.step_ns
    if not count or n_tensors is None or not step_ns:
        return None
    if not 0 < windowed.sum_calls(evidence, _ACCUMULATE).count <= n_tensors - count:
        return None
    rows = _rows_within(select_forward_only(work_of(evidence)), n_numbers)
    spent_ns = ns_per_window_step(evidence, sum(row.ns for row in rows))
    if spent_ns < _MIN_STEP_SHARE * step_ns:
        return None
    row_ids = set(map(id, rows))
    return unused_outputs.detection(
        f"{count} tensors of parameters never get a gradient: computing with them, which no loss "
        f"uses, takes {windowed.format_step_part(evidence, spent_ns)}.",
        *scale_changes(evidence.study.work, lambda row: _REMAINS if id(row) in row_ids else NO_CHANGE),
        location=windowed.find_calling_function(evidence, *(row.operator for row in rows)),
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
    """Return rows whose weights together have no more numbers than so many; else none."""
    weights = {weight for row in rows if (weight := weight_of(row)) is not None}
    return rows if sum(prod(weight) for weight in weights) <= _MAX_WEIGHT_RATIO * n_numbers else ()
