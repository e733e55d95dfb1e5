"""Products with one-hot vectors, which only choose rows of a matrix."""

from collections.abc import Sequence
from math import prod
from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.computing import part, share, work_of
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.work_examples import worked
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.work import Work
from gapless.replay.roofline import scales
from gapless.replay.shorter import sizes_of

_LEAST: Final = 0.02  # of the step
_MAKES: Final = "aten::one_hot"
_CASTS: Final = ("aten::to", "aten::_to_copy", "aten::type_as")
_PRODUCTS: Final = ("aten::matmul", "aten::mm", "aten::bmm", "aten::linear", "aten::addmm")
_LEFT: Final = Interval(0.01, 0.1, 0.3)  # of what goes: looking rows up, adding their gradients
_LEAVES: Final = {"busy.math": 12, "busy.other": 8, "busy.elementwise": 20}
_PARTS: Final = (
    worked("aten::one_hot", ((16, 64),), 3, "busy.other"),
    worked("aten::to", ((16, 64, 4000),), 5, "busy.other"),
    worked("aten::matmul", ((16, 64, 4000), (4000, 64)), 4, "busy.math"),
)
_BACK: Final = worked("aten::mm", ((4000, 1024), (1024, 64)), 6, "busy.math", backward=True)


@rule(
    "G519",
    "one-hot-product",
    since="0.1",
    figures=[
        Figure(
            "Words as one-hot vectors, times the table of their embeddings",
            "Tensors of one-hot vectors, 4,000 wide, are made and multiplied with a matrix, which "
            "only chooses rows of it: 18.0 ms of each 40.0 ms step.",
            stated(examples.cpu(), _LEAVES, *_PARTS, _BACK),
        ),
        Figure(
            "Labels as one-hot vectors, for a loss: nothing multiplies them with a matrix",
            None,
            stated(
                examples.cpu(),
                _LEAVES,
                worked("aten::one_hot", ((64,),), 3, "busy.other"),
                worked("aten::to", ((64, 1000),), 5, "busy.other"),
                worked("aten::mul", ((64, 1000),) * 2, 12, "busy.elementwise"),
                worked("aten::mm", ((64, 512), (512, 1000)), 4, "busy.math"),
                worked("aten::mm", ((1000, 64), (64, 512)), 4, "busy.math", backward=True),
                worked("aten::mm", ((64, 1000), (1000, 512)), 4, "busy.math", backward=True),
            ),
        ),
        Figure("An embedding", None, stated(examples.cpu(), _LEAVES, *_PARTS[2:], _BACK)),
    ],
)
def one_hot_product(seen: Seen) -> Loss | None:
    """Recognise one-hot vectors that are multiplied with a matrix.

    ## Why it costs time
    A product with a vector of zeros and a single one gives a row of the matrix. Making the vectors
    writes the width of the matrix for each row, in 64 bits and once more as floats, and the product
    reads all of it, to look a row up.

    ## How it is measured
    By the operators of the windows: ``one_hot``, what makes floats of its result, and products,
    forward and backward, whose inputs have the sizes of that. An embedding or an index leaves its
    lookup, and adding up the gradients of rows.
    """
    rows = work_of(seen)
    width = _width(rows)
    mine = () if width is None else tuple(one for one in rows if _is_part(one, *width))
    products = [one for one in mine if one.operator in _PRODUCTS and not one.backward]
    spent = sum(one.ns * _part(one, mine) for one in mine)
    if width is None or not products or share(seen, spent) < _LEAST:
        return None
    of_step = (seen.step_ns or 0.0) * share(seen, spent)
    return one_hot_product.loss(
        f"Tensors of one-hot vectors, {width[1]:,} wide, are made and multiplied with a matrix, "
        f"which only chooses rows of it: {windowed.of_step(seen, of_step)}.",
        *scales(seen.study.work, lambda work: part(_LEFT, _part(work, mine))),
        where=windowed.site(seen, _MAKES),
        evidence=(
            Measure("width of a vector", width[1], ""),
            Measure("vectors, a call", width[0], ""),
            Measure("making and multiplying them, a step", of_step, "ns"),
        ),
        no_remedy=(
            "look the rows up: torch.nn.functional.embedding(numbers, matrix) or matrix[numbers] "
            "in place of one_hot(numbers) @ matrix; nn.Embedding in place of a linear layer"
        ),
    )


def _width(rows: tuple[Work, ...]) -> tuple[int, int] | None:
    """Give how many one-hot vectors a call makes, and how wide; ``None``: no product is possible.

    The largest count, if there are several. ``one_hot`` gives integers: floats must be made of
    them.
    """
    numbers = {sizes_of(one)[0] for one in rows if one.operator == _MAKES and sizes_of(one)}
    casts = [
        sizes_of(one)[0]
        for one in rows
        if one.operator in _CASTS and sizes_of(one) and sizes_of(one)[0][:-1] in numbers
    ]
    widest = max((size for size in casts if size[-1] > 1), key=prod, default=None)
    return None if widest is None else (prod(widest[:-1]), widest[-1])


def _is_part(work: Work, many: int, width: int) -> bool:
    """Tell whether a row makes these vectors, or multiplies them."""
    sizes = sizes_of(work)
    if not sizes:
        return False
    if work.operator == _MAKES:
        return prod(sizes[0]) == many
    first = sizes[0]
    if work.operator in _CASTS:
        return bool(first) and (prod(first[:-1]), first[-1]) == (many, width)
    vectors = [size for size in sizes if len(size) > 1]
    if work.operator not in _PRODUCTS:
        return False
    if work.backward:  # of the matrix: the vectors need no gradient
        return any(size == (width, many) for size in vectors[:2])
    return any((prod(size[:-1]), size[-1]) == (many, width) for size in vectors[:2])


def _part(work: Work, mine: Sequence[Work]) -> float:
    """Give the share of a row's calls that are of the vectors: as many as are multiplied.

    The gradients of a last layer of the same width have their sizes, too.
    """
    if not any(one is work for one in mine):
        return 0.0
    often = sum(one.calls for one in mine if one.operator in _PRODUCTS and not one.backward)
    return min(1.0, often / work.calls) if work.calls else 0.0
