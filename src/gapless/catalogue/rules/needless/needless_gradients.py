"""Gradients of parameters that no optimizer updates."""

from math import prod
from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.compute import window_share, work_of
from gapless.catalogue.queries.parameters import gradients, input_gradients
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure
from gapless.roofline.roofline import NO_CHANGE, scale_changes

# Parameters differ in size, and layers in how many positions they are applied to: the needless ones
# may take so many times more, or less, of the backward pass than as many others; less far off if
# their sizes are known.
_SIZE_SPREAD: Final = 4.0
_SIZED_SPREAD: Final = 2.0
_WEIGHTS_SHARE: Final = 0.5  # of a layer's backward pass: the rest is for inputs


@rule(
    "G513",
    "needless-gradients",
    figures="""
    pass_rows(tensors, passes=1) = (operator(gradients.ACCUMULATE, calls=tensors, host_ms=1),
      source_line("torch/autograd/graph.py", 966, "_engine_run_backward", calls=passes, host=24),
      example_work("aten::mm", ((512, 512), (512, 512)), 20, "busy.math", backward=True),
      example_work("aten::addmm", ((512,), (512, 512), (512, 512)), 12, "busy.math"))
    # A teacher runs outside torch.no_grad()
    > Gradients of 100 parameters are computed in each step, and optimizers step 40: 60 are
      needless; the backward pass takes 20.0 ms of each 32.0 ms step.
    cpu(optimizer(tensors=40))
    busy.math 32
    *pass_rows(tensors=100)
    # A teacher that is known: its gradients were found
    > Gradients of 60 parameters of Teacher (train.py:48), which no optimizer updates, are computed
      in each step; the backward pass takes 20.0 ms of each 32.0 ms step.
    cpu(optimizer(tensors=40), untrained())
    busy.math 32
    *pass_rows(tensors=100)
    # Two models trained in turn: what one makes is not detached when the other is trained
    > 2 optimizers step in turn, and each backward pass computes gradients of 30 parameters or more,
      where one holds 20 at the most; those of the others are cleared before they step; the backward
      pass takes 20.0 ms of each 32.0 ms step.
    cpu(optimizer(tensors=20), optimizer(id=1, tensors=10))
    busy.math 32
    *pass_rows(tensors=60, passes=2), operator(UPDATES, calls=30, host_ms=0)
    # Two models trained in turn, with what one makes detached
    cpu(optimizer(tensors=20), optimizer(id=1, tensors=10))
    busy.math 32
    *pass_rows(tensors=50, passes=2), operator(UPDATES, calls=20, host_ms=0)
    # A frozen backbone of two layers, in front of what is trained
    > Gradients of 10 parameters are computed in each step, and optimizers step 6: 4 are needless;
      the backward pass takes 20.0 ms of each 32.0 ms step.
    cpu(optimizer(tensors=6))
    busy.math 32
    *pass_rows(tensors=10)
    example_work("aten::linear", ((64, 784), (2048, 784), (2048,)), 0, "busy.math")
    example_work(gradients.ACCUMULATE, ((2048, 784),), 0, "busy.other", backward=True)
    # Gradients of the inputs, whose size is that of a batch
    cpu(optimizer(tensors=6))
    busy.math 32
    *pass_rows(tensors=9), example_work("aten::linear", ((64, 3), (50, 3), (50,)), 0, "busy.math")
    example_work(gradients.ACCUMULATE, ((64, 1),), 0, "busy.other", backward=True)
    # A batch of images that requires gradients
    > The backward pass computes gradients of what the model is given ([128, 3, 32, 32]), and stores
      them; no optimizer updates it.
    cpu(optimizer(tensors=8))
    busy.math 32
    *pass_rows(tensors=9)
    example_work("aten::conv2d", ((128, 3, 32, 32), (6, 3, 5, 5)), 3, "busy.math")
    example_work("aten::convolution_backward", ((128, 6, 28, 28), (128, 3, 32, 32), (6, 3, 5, 5)),
      12, "busy.math", backward=True)
    example_work(gradients.ACCUMULATE, ((128, 3, 32, 32),), 0.1, "busy.other", backward=True)
    # Such images, in a second pass that an attack needs
    cpu(optimizer(tensors=40))
    busy.math 32
    *pass_rows(tensors=81, passes=2)
    example_work("aten::conv2d", ((128, 3, 32, 32), (6, 3, 5, 5)), 3, "busy.math")
    example_work(gradients.ACCUMULATE, ((128, 3, 32, 32),), 0.1, "busy.other", backward=True)
    # All parameters are trained, in two passes a step
    cpu(optimizer(tensors=40))
    busy.math 32
    *pass_rows(tensors=80, passes=2)
    # An optimizer for each parameter, made at one line
    cpu(optimizer(tensors=1, calls=30_000), world(steps=300))
    busy.math 32
    *pass_rows(tensors=100)
    # Gradients of the inputs, for a penalty
    cpu(optimizer(tensors=40))
    busy.math 32
    *pass_rows(tensors=42)
    """,
)
def needless_gradients(evidence: Evidence) -> Detection | None:
    """Recognise that gradients are computed for parameters that no optimizer updates.

    ## Why it costs time
    A model that is not trained (a teacher, a frozen backbone, a feature encoder) still takes part
    in the backward pass as long as its parameters require gradients and it runs outside
    ``torch.no_grad()``: its graph is kept, and gradients of its weights are computed and stored but
    never used. ``model.eval()`` does not change that. Of two models that are trained in turn (a
    generator and its judge), the first need not take part in the backward pass of the second: what
    it made is detached.

    ## How it is measured
    After some steps the recorder looks for gradients in the modules that it knows, whose parameters
    no optimizer holds; the module with most of them is named. Where it finds none: autograd stores
    a gradient at most once for each parameter and backward pass. More of them in the windows than
    parameters of the optimizers, times the passes, belong to others. How long each takes is not
    seen, so the price rests on their number and, where that is known, on their sizes; if gradients
    must pass through such a model, half of it remains. A few tensors whose gradients may be
    requested (inputs) do not count, unless sizes show that there are none: gradients of inputs have
    the length of the batch. Where a step's only backward pass stores gradients of the sizes of what
    a layer is given, and more of them than optimizers hold, these are named: of that layer's
    backward pass about as much stays as its forward pass takes.
    """
    backward_rows = [row for row in work_of(evidence) if row.backward]
    needless = (
        gradients.find_untrained(evidence)
        or gradients.find_shared_passes(evidence)
        or gradients.count_surplus(evidence, backward_rows)
    )
    if needless is None:
        inputs = input_gradients.find_input_gradients(evidence)
        return None if inputs is None else _inputs_detection(evidence, inputs)
    spent_ns = (evidence.step_ns or 0) * window_share(
        evidence, sum(row.ns for row in backward_rows)
    )
    remaining = _remaining_share(needless)
    return needless_gradients.detection(
        f"{needless.summary}; the backward pass takes "
        f"{windows.format_step_part(evidence, spent_ns)}.",
        *scale_changes(evidence.study.work, lambda row: remaining if row.backward else NO_CHANGE),
        location=needless.location,
        measures=(
            Measure("gradients that nothing uses, a step", needless.count, ""),
            Measure("of them, by their number", needless.count_share, "share"),
        ),
        no_remedy=needless.remedy,
    )


def _inputs_detection(
    evidence: Evidence, inputs: input_gradients.InputGradients
) -> Detection | None:
    rows = work_of(evidence)
    sizes = " and ".join(str(list(size)) for size in inputs.sizes[:2])
    changes = scale_changes(rows, lambda row: inputs.remain(rows, row))
    return needless_gradients.detection(
        f"The backward pass computes gradients of what the model is given ({sizes}), and stores "
        "them; no optimizer updates it.",
        *changes,
        location=inputs.location,
        measures=(Measure("gradients that no optimizer uses, a step", inputs.count, ""),),
        no_remedy=(
            "if nothing reads them: give the model tensors that do not require gradients "
            "(no requires_grad_(), detach())"
        ),
        inferred=True,
    )


def _remaining_share(needless: gradients.NeedlessGradients) -> Estimate:
    """Return the part of the backward pass that remains, from the share of gradients as odds.

    Sizes, where they are known, say more than numbers: the low end rests on them alone.
    """
    shares = needless.count_share, needless.size_share
    odds = [share / (1 - share) for share in shares if share is not None]
    spread = _SIZE_SPREAD if needless.size_share is None else _SIZED_SPREAD
    low, mid, high = odds[-1] / spread, prod(odds) ** (1 / len(odds)), max(odds) * spread
    return Estimate(1 / (1 + high), 1 / (1 + mid), 1 - _WEIGHTS_SHARE * low / (1 + low))
