"""Gradients of parameters that no optimizer steps."""

from collections.abc import Iterable, Sequence
from math import prod
from typing import Final

from gapless.catalogue import examples, optimizing, windowed
from gapless.catalogue.computing import share, work_of
from gapless.catalogue.products import batch_of
from gapless.catalogue.ruling import Figure, NotSeenError, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import operator, source
from gapless.catalogue.work_examples import worked
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.tables import Line, Operator
from gapless.model.work import Work
from gapless.replay.roofline import SAME, scales
from gapless.replay.shorter import sizes_of

_ACCUMULATE: Final = "torch::autograd::AccumulateGrad"
_FEW: Final = 4  # inputs whose gradients are asked for (physics, attacks) are one or two tensors
_PART: Final = 0.1  # of all
_ONCE: Final = 1.5  # calls a step: more are of several optimizers, or of several steps
# Parameters differ in size, and layers in how many positions they are applied to: those that are
# needless may take so many times more, or less, of the backward pass than as many others; less far
# off where their sizes are known, too.
_UNLIKE: Final = 4.0
_SIZED: Final = 2.0
_WEIGHTS: Final = 0.5  # of a layer's backward pass: the rest goes on to the layers below it


def _pass(tensors: int, passes: float = 1) -> tuple[Operator | Line | Work, ...]:
    return (
        operator(_ACCUMULATE, calls=tensors, host_ms=1),
        source("torch/autograd/graph.py", 966, "_engine_run_backward", calls=passes, host=24),
        worked("aten::mm", ((512, 512), (512, 512)), 20, "busy.math", backward=True),
        worked("aten::addmm", ((512,), (512, 512), (512, 512)), 12, "busy.math"),
    )


@rule(
    "G513",
    "needless-gradients",
    since="0.1",
    figures=[
        Figure(
            "A teacher runs outside of torch.no_grad()",
            "Gradients of 100 parameters are computed in each step, and optimizers step 40: 60 "
            "are needless; the backward pass takes 20.0 ms of each 32.0 ms step.",
            stated(
                examples.cpu(examples.optimizer(tensors=40)), {"busy.math": 32}, *_pass(tensors=100)
            ),
        ),
        Figure(
            "A frozen backbone of two layers, in front of what is trained",
            "Gradients of 10 parameters are computed in each step, and optimizers step 6: 4 are "
            "needless; the backward pass takes 20.0 ms of each 32.0 ms step.",
            stated(
                examples.cpu(examples.optimizer(tensors=6)),
                {"busy.math": 32},
                *_pass(tensors=10),
                worked("aten::linear", ((64, 784), (2048, 784), (2048,)), 0, "busy.math"),
                worked(_ACCUMULATE, ((2048, 784),), 0, "busy.other", backward=True),
            ),
        ),
        Figure(
            "Gradients of the inputs, whose size is that of a batch",
            None,
            stated(
                examples.cpu(examples.optimizer(tensors=6)),
                {"busy.math": 32},
                *_pass(tensors=9),
                worked("aten::linear", ((64, 3), (50, 3), (50,)), 0, "busy.math"),
                worked(_ACCUMULATE, ((64, 1),), 0, "busy.other", backward=True),
            ),
        ),
        Figure(
            "All parameters are trained, in two passes a step",
            None,
            stated(
                examples.cpu(examples.optimizer(tensors=40)),
                {"busy.math": 32},
                *_pass(tensors=80, passes=2),
            ),
        ),
        Figure(
            "An optimizer for each parameter, made at one line",
            None,
            stated(
                examples.cpu(
                    examples.optimizer(tensors=1, calls=30_000), examples.world(steps=300)
                ),
                {"busy.math": 32},
                *_pass(tensors=100),
            ),
        ),
        Figure(
            "Gradients of the inputs, for a penalty",
            None,
            stated(
                examples.cpu(examples.optimizer(tensors=40)), {"busy.math": 32}, *_pass(tensors=42)
            ),
        ),
    ],
)
def needless_gradients(seen: Seen) -> Loss | None:
    """Recognise that gradients are computed of parameters that no optimizer steps.

    ## Why it costs time
    A model that is not trained (a teacher, a frozen backbone, an encoder of features) takes part
    in the backward pass all the same as long as its parameters ask for gradients and it runs
    outside of ``torch.no_grad()``: its graph is kept, its weights' gradients are computed and
    stored, and nobody looks at them. ``model.eval()`` changes nothing of that.

    ## How it is measured
    Autograd stores a gradient at most once for each parameter and backward pass. More of them in
    the windows than the optimizers hold parameters, times the passes, are of others. The profiler
    does not tell which these are, so that the price knows no more than how many, and on the CPU
    alone how large; where gradients must pass through such a model, half of it stays. Single
    tensors whose gradients may be asked for (inputs) do not count, where sizes do not tell that
    there are none: gradients of inputs have the length of the batch.
    """
    many = optimizing.tensors(seen)
    stored = windowed.calls(seen, _ACCUMULATE).count
    few = 0 if _weights_alone(seen.study.work) else _FEW
    if many is None or stored <= many + few or _several(seen):
        return None
    needless = stored - max(1.0, _passes(seen)) * many
    if needless <= max(few, _PART * stored):
        return None
    backward = [one for one in work_of(seen) if one.backward]
    step = seen.step_ns or 0
    spent = step * share(seen, sum(one.ns for one in backward))
    left = _left(needless / stored, _sized(seen, backward))
    return needless_gradients.loss(
        f"Gradients of {stored:.0f} parameters are computed in each step, and optimizers step "
        f"{stored - needless:.0f}: {needless:.0f} are needless; the backward pass takes "
        f"{windowed.of_step(seen, spent)}.",
        *scales(seen.study.work, lambda one: left if one.backward else SAME),
        where=optimizing.place(seen),
        evidence=(
            Measure("gradients stored, a step", stored, ""),
            Measure("parameters of optimizers", many, ""),
            Measure("backward passes, a step", _passes(seen), ""),
        ),
        no_remedy=(
            "run the model that is not trained under `with torch.no_grad():`; where gradients must "
            "pass through it, call requires_grad_(False) on it; or give its parameters to the "
            "optimizer, if they were forgotten"
        ),
    )


def _weights_alone(rows: Sequence[Work]) -> bool:
    """Tell whether no stored gradient has the size of a batch: then none is of an input."""
    stored = [sizes[0] for one in rows if one.operator == _ACCUMULATE and (sizes := sizes_of(one))]
    batches = {size for one in rows if (size := batch_of(one)) is not None}
    return bool(stored) and bool(batches) and not any(set(one) & batches for one in stored)


def _several(seen: Seen) -> bool:
    """Tell whether an optimizer steps more than once a step: it may be one of many at its line.

    One for each parameter, or for each member of an ensemble: the sizes of one of them are known.
    """
    facts = seen.facts
    return facts is not None and any(
        one.calls > _ONCE * max(1, facts.world.steps) for one in facts.optimizers
    )


def _passes(seen: Seen) -> float:
    """Count the backward passes of a step, and what asks for gradients alone."""
    found = [
        one
        for one in seen.study.tables.lines
        if one.function == "_engine_run_backward" and "autograd" in one.file
    ]
    if not found:
        raise NotSeenError("stacks", "no window with stacks tells how many backward passes ran")
    return sum(one.calls for one in found) / windowed.steps(seen)


def _sized(seen: Seen, backward: Iterable[Work]) -> float | None:
    """Give the share of the stored gradients' numbers that is needless, where their sizes tell."""
    optimizers = () if seen.facts is None else seen.facts.optimizers
    owned = [one.parameters for one in optimizers]
    stored = sum(
        one.calls * prod(sizes_of(one)[0])
        for one in backward
        if one.operator == _ACCUMULATE and sizes_of(one)
    )
    if not stored or not all(owned):
        return None
    many = sum(one or 0 for one in owned) * max(1.0, _passes(seen)) * windowed.steps(seen)
    return 1 - many / stored if 0 < many < stored else None


def _left(many: float, sized: float | None) -> Interval:
    """Give the part of the backward pass that stays; both: the share of gradients, as odds."""
    odds = [one / (1 - one) for one in (many, sized) if one is not None]
    unlike = _UNLIKE if sized is None else _SIZED
    low, mid, high = min(odds) / unlike, prod(odds) ** (1 / len(odds)), max(odds) * unlike
    return Interval(1 / (1 + high), 1 / (1 + mid), 1 - _WEIGHTS * low / (1 + low))
