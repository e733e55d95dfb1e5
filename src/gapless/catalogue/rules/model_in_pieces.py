"""A model that is called on pieces of a batch, one after the other."""

from typing import Final

from gapless.catalogue import examples, pieces, windowed
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import operator
from gapless.catalogue.work_examples import worked
from gapless.model.finding import Loss, Measure
from gapless.model.host_code import CallLine
from gapless.model.seen import Seen

_NODE: Final = "autograd::engine::evaluate_function: {}"
_GRADIENTS: Final = operator(_NODE.format("torch::autograd::AccumulateGrad"), calls=4, host_ms=0.1)
_LOSS: Final = worked("aten::nll_loss", ((96, 10), (96,)), 0.1, "busy.norm_reduce", calls=1)


@rule(
    "G218",
    "model-in-pieces",
    since="0.1",
    figures=[
        Figure(
            "Samples of a batch, each given to the model by itself",
            "The model is called 32 times in each step, on 3 rows of 96 at a time: each of its "
            "layers is called as often.",
            stated(
                examples.cpu(examples.optimizer(tensors=4)),
                {"busy.math": 20, "idle.host.python": 5},
                _GRADIENTS,
                operator(_NODE.format("AddmmBackward0"), calls=64, host_ms=8),
                worked("aten::linear", ((3, 64), (64, 64)), 10, "busy.math", calls=32),
                worked("aten::linear", ((3, 64), (10, 64)), 9, "busy.math", calls=32),
                _LOSS,
                CallLine("train.py", 40, "train", "model.py", "Net.forward", 0.4),
                CallLine("model.py", 12, "Net.forward", "linear.py", "Linear.forward", 0.3),
            ),
        ),
        Figure(
            "Layers that take the whole batch at once",
            None,
            stated(
                examples.cpu(examples.optimizer(tensors=4)),
                {"busy.math": 20},
                _GRADIENTS,
                operator(_NODE.format("AddmmBackward0"), calls=2, host_ms=8),
                worked("aten::linear", ((96, 64), (64, 64)), 10, "busy.math", calls=1),
                worked("aten::linear", ((96, 64), (10, 64)), 9, "busy.math", calls=1),
                _LOSS,
            ),
        ),
        Figure(
            "Time steps of a recurrence: each takes all rows of the batch",
            None,
            stated(
                examples.cpu(examples.optimizer(tensors=4)),
                {"busy.math": 20},
                _GRADIENTS,
                operator(_NODE.format("AddmmBackward0"), calls=64, host_ms=8),
                worked("aten::linear", ((96, 64), (64, 64)), 19, "busy.math", calls=64),
                worked("aten::embedding", ((50, 64), (96, 32)), 0.1, "busy.index", calls=1),
                worked("aten::nll_loss", ((96 * 64, 10),), 0.1, "busy.norm_reduce", calls=1),
                _LOSS,
            ),
        ),
        Figure(
            "An agent that acts: what it does next depends on what is read of each result",
            None,
            stated(
                examples.cpu(examples.optimizer(tensors=4)),
                {"busy.math": 20},
                _GRADIENTS,
                operator(_NODE.format("AddmmBackward0"), calls=192, host_ms=8),
                operator("aten::_local_scalar_dense", calls=96, host_ms=0.2),
                worked("aten::linear", ((1, 64), (64, 64)), 10, "busy.math", calls=96),
                worked("aten::linear", ((1, 64), (10, 64)), 9, "busy.math", calls=96),
                _LOSS,
            ),
        ),
    ],
)
def model_in_pieces(seen: Seen) -> Loss | None:
    """Recognise a model that is called on pieces of a batch, one after the other.

    ## Why it costs time
    Each call of a layer costs the host the same, however few rows it takes, once more in the
    backward pass, where the gradients of all calls are added up, too. A small product leaves most
    of a processor's width, and nearly all of a device, idle. One call on all rows pays once.

    ## How it is measured
    By how often parameters are used within a backward pass: each has its gradient written once, and
    each call of a layer has a node of autograd's. Four times and more is neither a second view nor
    a generator's judge. Pieces are they if other operators of the step take as many rows at once as
    all calls of a layer together, and none takes as few: a time step takes the whole batch. Where
    the host reads a number in every second round, the next may depend on it.

    What goes is what calls take beside what they compute, by sizes. How much of it is not known
    before they are one call; so the interval is wide. The line is the outermost at which sampled
    stacks stood in a forward pass.
    """
    found = pieces.pieces_of(seen)
    if found is None:
        return None
    rounds = windowed.times(found.rounds)
    return model_in_pieces.loss(
        f"The model is called {rounds} times in each step, on {found.rows} "
        f"row{'s' if found.rows > 1 else ''} of {found.batch} at a time: each of its layers is "
        "called as often.",
        *pieces.whole(seen, found),
        where=pieces.calling(seen),
        evidence=(
            Measure("calls of the model, a step", found.rounds, ""),
            Measure("rows of each", found.rows, ""),
            Measure("rows of the batch", found.batch, ""),
            Measure("operators of the step that these are", found.host, "share"),
        ),
        no_remedy=(
            "give the model all rows at once; where their lengths differ, pad and mask them; where "
            "memory does not hold them, take as many as it does"
        ),
        inferred=True,
    )
