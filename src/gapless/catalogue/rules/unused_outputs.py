"""Outputs that are computed in each step, and that no loss uses."""

from collections.abc import Mapping
from math import prod
from typing import Final

from gapless.catalogue import examples, optimizing, windowed
from gapless.catalogue.computing import per_step, work_of
from gapless.catalogue.products import unfollowed, weight_of
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import operator
from gapless.catalogue.work_examples import worked
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.work import Work
from gapless.replay.roofline import SAME, scales

_ACCUMULATE: Final = "torch::autograd::AccumulateGrad"
_LEAST: Final = 0.01  # of the step
_GONE: Final = Interval(0.0, 0.02, 0.3)  # of the products: that they are all unused is inferred
_BESIDE: Final = 1.1  # norms and biases have numbers, too


def _products(*, used: bool) -> tuple[object, ...]:
    more = (worked("aten::mm", ((2048, 64), (64, 784)), 8, "busy.math", backward=True),)
    return (
        operator(_ACCUMULATE, calls=10 if used else 6, host_ms=1),
        worked("aten::linear", ((64, 784), (256, 784), (256,)), 8, "busy.math"),
        worked("aten::mm", ((256, 64), (64, 784)), 16, "busy.math", backward=True),
        worked("aten::linear", ((64, 784), (2048, 784), (2048,)), 8, "busy.math"),
        *(more if used else ()),
    )


_LACKING: Final[Mapping[str, int]] = {"ungraded": 4, "ungraded_parameters": 3_300_000}


@rule(
    "G514",
    "unused-outputs",
    since="0.1",
    figures=[
        Figure(
            "An auxiliary head whose output goes into no loss",
            "4 tensors of parameters never get a gradient: computing with them, which no loss "
            "uses, takes 8.0 ms of each 32.0 ms step.",
            stated(
                examples.cpu(examples.optimizer(tensors=10, **_LACKING)),
                {"busy.math": 32},
                *_products(used=False),
            ),
        ),
        Figure(
            "Its loss counts later on",
            None,
            stated(
                examples.cpu(examples.optimizer(tensors=10, **_LACKING)),
                {"busy.math": 40},
                *_products(used=True),
            ),
        ),
        Figure(
            "A frozen layer: it asks for no gradient",
            None,
            stated(
                examples.cpu(examples.optimizer(tensors=10, ungraded=0, ungraded_parameters=0)),
                {"busy.math": 32},
                *_products(used=False),
            ),
        ),
    ],
)
def unused_outputs(seen: Seen) -> Loss | None:
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
    optimizers = () if seen.facts is None else seen.facts.optimizers
    without = sum(one.ungraded or 0 for one in optimizers)
    numbers = sum(one.ungraded_parameters or 0 for one in optimizers)
    many, step = optimizing.tensors(seen), seen.step_ns
    if not without or many is None or not step:
        return None
    if not 0 < windowed.calls(seen, _ACCUMULATE).count <= many - without:
        return None
    rows = _fitting(unfollowed(work_of(seen)), numbers)
    spent = per_step(seen, sum(one.ns for one in rows))
    if spent < _LEAST * step:
        return None
    alone = set(map(id, rows))
    return unused_outputs.loss(
        f"{without} tensors of parameters never get a gradient: computing with them, which no loss "
        f"uses, takes {windowed.of_step(seen, spent)}.",
        *scales(seen.study.work, lambda one: _GONE if id(one) in alone else SAME),
        where=windowed.site(seen, *(one.operator for one in rows)),
        evidence=(
            Measure("parameters without a gradient", without, ""),
            Measure("products that no backward pass follows, a step", spent, "ns"),
        ),
        no_remedy=(
            "leave out what computes these outputs, and their parameters of the optimizer; or add "
            "the loss that was forgotten"
        ),
        inferred=True,
    )


def _fitting(rows: tuple[Work, ...], numbers: int) -> tuple[Work, ...]:
    """Give rows whose weights together have no more numbers than so many; else none."""
    weights = {weight for one in rows if (weight := weight_of(one)) is not None}
    return rows if sum(prod(one) for one in weights) <= _BESIDE * numbers else ()
