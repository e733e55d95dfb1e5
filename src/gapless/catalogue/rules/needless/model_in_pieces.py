"""A model that is called on pieces of a batch, one after the other."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import figure
from gapless.catalogue.examples.parts import operator
from gapless.catalogue.examples.work import example_work
from gapless.catalogue.queries import model_pieces, windows
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure
from gapless.model.host_code import CallLine

_NODE: Final = "autograd::engine::evaluate_function: {}"
_GRADIENT_CALLS: Final = operator(
    _NODE.format("torch::autograd::AccumulateGrad"), calls=4, host_ms=0.1
)
_LOSS_WORK: Final = example_work(
    "aten::nll_loss", ((96, 10), (96,)), 0.1, "busy.norm_reduce", calls=1
)


@rule(
    "G218",
    "model-in-pieces",
    figures=lambda: [
        figure(
            "Samples of a batch, each given to the model separately",
            "The model is called 32 times in each step, on 3 rows of 96 at a time: each of its "
            "layers is called as often.",
            example_facts.cpu(example_facts.optimizer(tensors=4)),
            {"busy.math": 20, "idle.host.python": 5},
            _GRADIENT_CALLS,
            operator(_NODE.format("AddmmBackward0"), calls=64, host_ms=8),
            example_work("aten::linear", ((3, 64), (64, 64)), 10, "busy.math", calls=32),
            example_work("aten::linear", ((3, 64), (10, 64)), 9, "busy.math", calls=32),
            _LOSS_WORK,
            CallLine("train.py", 40, "train", "model.py", "Net.forward", 0.4),
            CallLine("model.py", 12, "Net.forward", "linear.py", "Linear.forward", 0.3),
        ),
        figure(
            "Layers that take the entire batch at once",
            None,
            example_facts.cpu(example_facts.optimizer(tensors=4)),
            {"busy.math": 20},
            _GRADIENT_CALLS,
            operator(_NODE.format("AddmmBackward0"), calls=2, host_ms=8),
            example_work("aten::linear", ((96, 64), (64, 64)), 10, "busy.math", calls=1),
            example_work("aten::linear", ((96, 64), (10, 64)), 9, "busy.math", calls=1),
            _LOSS_WORK,
        ),
        figure(
            "Time steps of a recurrence: each takes all rows of the batch",
            None,
            example_facts.cpu(example_facts.optimizer(tensors=4)),
            {"busy.math": 20},
            _GRADIENT_CALLS,
            operator(_NODE.format("AddmmBackward0"), calls=64, host_ms=8),
            example_work("aten::linear", ((96, 64), (64, 64)), 19, "busy.math", calls=64),
            example_work("aten::embedding", ((50, 64), (96, 32)), 0.1, "busy.index", calls=1),
            example_work("aten::nll_loss", ((96 * 64, 10),), 0.1, "busy.norm_reduce", calls=1),
            _LOSS_WORK,
        ),
        figure(
            "An agent that acts: what it does next depends on what is read of each result",
            None,
            example_facts.cpu(example_facts.optimizer(tensors=4)),
            {"busy.math": 20},
            _GRADIENT_CALLS,
            operator(_NODE.format("AddmmBackward0"), calls=192, host_ms=8),
            operator("aten::_local_scalar_dense", calls=96, host_ms=0.2),
            example_work("aten::linear", ((1, 64), (64, 64)), 10, "busy.math", calls=96),
            example_work("aten::linear", ((1, 64), (10, 64)), 9, "busy.math", calls=96),
            _LOSS_WORK,
        ),
    ],
)
def model_in_pieces(evidence: Evidence) -> Detection | None:
    """Recognise a model that is called on pieces of a batch, one after the other.

    ## Why it costs time
    Each call of a layer costs the host the same, however few rows it takes, and again in the
    backward pass, where the gradients of all calls are also accumulated. A small product leaves
    most of a processor's width, and nearly all of a device, idle. One call on all rows pays once.

    ## How it is measured
    By how often parameters are used within a backward pass: each has its gradient written once, and
    each call of a layer has its own autograd node. Four times or more is neither a second view nor
    the discriminator of a generator. The calls take pieces of a batch if other operators of the
    step take as many rows at once as all calls of a layer together, and none takes as few: a time
    step takes the entire batch. If the host reads a number in every second round, the next may
    depend on it.

    What is saved is the overhead of calls beyond what they compute, by sizes. How much of it is not
    known before they are one call; so the interval is wide. The line is the outermost one that was
    sampled during a forward pass.
    """
    split = model_pieces.find_pieces(evidence)
    if split is None:
        return None
    rounds = windows.format_count(split.rounds)
    return model_in_pieces.detection(
        f"The model is called {rounds} times in each step, on {split.piece_rows} "
        f"row{'s' if split.piece_rows > 1 else ''} of {split.batch_rows} at a time: each of its "
        "layers is called as often.",
        *model_pieces.merge_pieces(evidence, split),
        location=model_pieces.find_model_call(evidence),
        measures=(
            Measure("calls of the model, a step", split.rounds, ""),
            Measure("rows of each", split.piece_rows, ""),
            Measure("rows of the batch", split.batch_rows, ""),
            Measure("operators of the step that these are", split.host_share, "share"),
        ),
        no_remedy=(
            "give the model all rows at once; where their lengths differ, pad and mask them; where "
            "memory does not hold them, take as many as it does"
        ),
        inferred=True,
    )
