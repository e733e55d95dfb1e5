"""A model that is called on pieces of a batch, one after the other."""

from collections.abc import Sequence
from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.declare.selectors import name_line
from gapless.catalogue.queries import model_pieces, samples, windows
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure

_MIN_SHARE: Final = 0.05  # of the step


@rule(
    "G218",
    "model-in-pieces",
    figures="""
    node = "autograd::engine::evaluate_function: {}"
    gradient_calls = operator(node.format("torch::autograd::AccumulateGrad"), calls=4, host_ms=0.1)
    loss_work = example_work("aten::nll_loss", ((96, 10), (96,)), 0.1, "busy.norm_reduce", calls=1)
    pieces = (("aten::split", 500_000, 1), ("aten::linear", 3_000_000, 3),
      ("aten::cat", 1_500_000, 1))
    site(name, ns, n) = Site(name, "model.py", 8, "pieces", STEPS * ns, STEPS * n)
    split_product = (Line("model.py", 8, "pieces", STEPS, 0, STEPS * 5_000_000, None, 0),
      *(site(*piece) for piece in pieces),
      Site(node.format("CatBackward0"), "train.py", 9, "train", STEPS * 2_000_000, STEPS))
    # Samples of a batch, each given to the model separately
    > The model is called 32 times in each step, on 3 rows of 96 at a time: each of its layers is
      called as often.
    cpu(optimizer(tensors=4))
    busy.math 20, idle.host.python 5
    gradient_calls, operator(node.format("AddmmBackward0"), calls=64, host_ms=8)
    example_work("aten::linear", ((3, 64), (64, 64)), 10, "busy.math", calls=32)
    example_work("aten::linear", ((3, 64), (10, 64)), 9, "busy.math", calls=32), loss_work
    CallLine("train.py", 40, "train", "model.py", "Net.forward", 0.4)
    CallLine("model.py", 12, "Net.forward", "linear.py", "Linear.forward", 0.3)
    # A batch of four in four pieces: what is called once a step takes all of it
    > The model is called 4 times in each step, on 1 row of 4 at a time: each of its layers is
      called as often.
    cpu(optimizer(tensors=4))
    busy.math 20, idle.host.python 5
    gradient_calls, operator(node.format("AddmmBackward0"), calls=8, host_ms=8)
    example_work("aten::linear", ((1, 64), (64, 64)), 10, "busy.math", calls=4)
    example_work("aten::linear", ((1, 64), (10, 64)), 9, "busy.math", calls=4)
    example_work("aten::nll_loss", ((4, 10), (4,)), 0.1, "busy.norm_reduce", calls=1)
    # Layers that take the entire batch at once
    cpu(optimizer(tensors=4))
    busy.math 20
    gradient_calls, operator(node.format("AddmmBackward0"), calls=2, host_ms=8)
    example_work("aten::linear", ((96, 64), (64, 64)), 10, "busy.math", calls=1)
    example_work("aten::linear", ((96, 64), (10, 64)), 9, "busy.math", calls=1), loss_work
    # Time steps of a recurrence: each takes all rows of the batch
    cpu(optimizer(tensors=4))
    busy.math 20
    gradient_calls, operator(node.format("AddmmBackward0"), calls=64, host_ms=8)
    example_work("aten::linear", ((96, 64), (64, 64)), 19, "busy.math", calls=64)
    example_work("aten::embedding", ((50, 64), (96, 32)), 0.1, "busy.index", calls=1)
    example_work("aten::nll_loss", ((96 * 64, 10),), 0.1, "busy.norm_reduce", calls=1), loss_work
    # A decoder, which gives its recurrent layer a word of each row at a time
    cpu(optimizer(tensors=4))
    busy.math 20, idle.host.python 5
    gradient_calls, operator(node.format("AddmmBackward0"), calls=64, host_ms=8)
    example_work("aten::gru", ((1, 3, 64), (1, 3, 64)), 10, "busy.math", calls=32)
    example_work("aten::linear", ((3, 64), (10, 64)), 9, "busy.math", calls=32), loss_work
    # An agent that acts: what it does next depends on what is read of each result
    cpu(optimizer(tensors=4))
    busy.math 20
    gradient_calls, operator(node.format("AddmmBackward0"), calls=192, host_ms=8)
    operator("aten::_local_scalar_dense", calls=96, host_ms=0.2)
    example_work("aten::linear", ((1, 64), (64, 64)), 10, "busy.math", calls=96)
    example_work("aten::linear", ((1, 64), (10, 64)), 9, "busy.math", calls=96), loss_work
    # A layer whose weight is split, and its results put together
    > `pieces` (model.py:8) computes a product in 3 parts: splitting and putting together take 4.0
      ms of each 20.0 ms step.
    cpu()
    busy.math 16, busy.mem 4
    *split_product
    # Attention: its heads are split, and put together
    cpu()
    busy.math 16, busy.mem 4
    *split_product, Site("aten::softmax", "model.py", 8, "pieces", STEPS * 500_000, STEPS)
    """,
)
def model_in_pieces(evidence: Evidence) -> Sequence[Detection]:
    """Recognise a model that is called on pieces of a batch, or a product computed in parts.

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
    depend on it; the time steps that a decoder gives to a recurrent layer do.

    What is saved is the overhead of calls beyond what they compute, by sizes. How much of it is not
    known before they are one call; so the interval is wide. The line is the outermost one that was
    sampled during a forward pass.

    Without a device, a product in parts is a function of the user's that splits a tensor, calls
    products several times and puts their results together, in each call, as stacks of windows show.
    The parts are worth what splitting and putting together take, forward and backward, and the
    Python between them; the products themselves become somewhat faster as one.
    """
    detections = (_detect_pieces(evidence), _detect_parts(evidence))
    return [detection for detection in detections if detection is not None]


def _detect_parts(evidence: Evidence) -> Detection | None:
    parts, step_ns = model_pieces.find_product_parts(evidence), evidence.step_ns
    if parts is None or not step_ns or parts.around_ns < _MIN_SHARE * step_ns:
        return None
    location = parts.location
    return model_in_pieces.detection(
        f"`{location.function}` ({name_line(location)}) computes a product in "
        f"{windows.format_count(parts.products)} parts: splitting and putting together take "
        f"{windows.format_step_part(evidence, parts.around_ns)}.",
        samples.remove_share(evidence, parts.share),
        location=location,
        measures=(Measure("splitting and putting together, a step", parts.around_ns, "ns"),),
        no_remedy="compute it as one product, and split the result where parts of it are needed",
        inferred=True,
    )


def _detect_pieces(evidence: Evidence) -> Detection | None:
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
