"""Products with one-hot vectors, which only select rows of a matrix."""

from collections.abc import Sequence
from math import prod
from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.compute import dilute_factor, window_share, work_of
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure
from gapless.model.work import Work
from gapless.roofline.padding import sizes_of
from gapless.roofline.roofline import scale_changes

_MIN_STEP_SHARE: Final = 0.02  # of the step
_ONE_HOT: Final = "aten::one_hot"
_CASTS: Final = ("aten::to", "aten::_to_copy", "aten::type_as")
_PRODUCTS: Final = ("aten::matmul", "aten::mm", "aten::bmm", "aten::linear", "aten::addmm")
_REMAINS: Final = Estimate(0.01, 0.1, 0.3)  # of what is removed: lookups, and adding gradients


@rule(
    "G519",
    "one-hot-product",
    figures="""
    forward_work = (example_work("aten::one_hot", ((16, 64),), 3, "busy.other"),
      example_work("aten::to", ((16, 64, 4000),), 5, "busy.other"), example_work("aten::matmul",
      ((16, 64, 4000), (4000, 64)), 4, "busy.math"))
    backward_work = example_work("aten::mm", ((4000, 1024), (1024, 64)), 6, "busy.math",
      backward=True)
    # Words as one-hot vectors, times the table of their embeddings
    > Tensors of one-hot vectors, 4,000 wide, are made and multiplied with a matrix, which only
      chooses rows of it: 18.0 ms of each 40.0 ms step.
    cpu()
    busy.math 12, busy.other 8, busy.elementwise 20
    *forward_work, backward_work
    # Labels as one-hot vectors, for a loss: nothing multiplies them with a matrix
    cpu()
    busy.math 12, busy.other 8, busy.elementwise 20
    example_work("aten::one_hot", ((64,),), 3, "busy.other")
    example_work("aten::to", ((64, 1000),), 5, "busy.other")
    example_work("aten::mul", ((64, 1000),) * 2, 12, "busy.elementwise")
    example_work("aten::mm", ((64, 512), (512, 1000)), 4, "busy.math")
    example_work("aten::mm", ((1000, 64), (64, 512)), 4, "busy.math", backward=True)
    example_work("aten::mm", ((64, 1000), (1000, 512)), 4, "busy.math", backward=True)
    # An embedding
    cpu()
    busy.math 12, busy.other 8, busy.elementwise 20
    *forward_work[2:], backward_work
    """,
)
def one_hot_product(evidence: Evidence) -> Detection | None:
    """Recognise one-hot vectors that are multiplied with a matrix.

    ## Why it costs time
    A product with a vector of zeros and a single one gives a row of the matrix. Making the vectors
    writes the width of the matrix for each row, in 64 bits and again as floats, and the product
    reads all of it, to look up a row.

    ## How it is measured
    By the operators of the windows: ``one_hot``, the conversion of its result to floats, and
    products, forward and backward, with inputs of its sizes. With an embedding or an index the
    lookup remains, and accumulating the gradients of rows.
    """
    rows = work_of(evidence)
    shape = _vector_shape(rows)
    vector_rows = () if shape is None else tuple(row for row in rows if _uses_vectors(row, *shape))
    products = [row for row in vector_rows if row.operator in _PRODUCTS and not row.backward]
    rows_ns = sum(row.ns * _vector_share(row, vector_rows) for row in vector_rows)
    if shape is None or not products or window_share(evidence, rows_ns) < _MIN_STEP_SHARE:
        return None
    spent_ns = (evidence.step_ns or 0.0) * window_share(evidence, rows_ns)
    return one_hot_product.detection(
        f"Tensors of one-hot vectors, {shape[1]:,} wide, are made and multiplied with a matrix, "
        f"which only chooses rows of it: {windows.format_step_part(evidence, spent_ns)}.",
        *scale_changes(
            evidence.study.work,
            lambda work: dilute_factor(_REMAINS, _vector_share(work, vector_rows)),
        ),
        location=windows.find_calling_function(evidence, _ONE_HOT),
        measures=(
            Measure("width of a vector", shape[1], ""),
            Measure("vectors, a call", shape[0], ""),
            Measure("making and multiplying them, a step", spent_ns, "ns"),
        ),
        no_remedy=(
            "look the rows up: torch.nn.functional.embedding(numbers, matrix) or matrix[numbers] "
            "in place of one_hot(numbers) @ matrix; nn.Embedding in place of a linear layer"
        ),
    )


def _vector_shape(rows: tuple[Work, ...]) -> tuple[int, int] | None:
    """Return how many one-hot vectors a call makes, and how wide; ``None``: no product is possible.

    The largest number, if there are several. ``one_hot`` returns integers, which must be converted
    to floats.
    """
    index_sizes = {sizes_of(row)[0] for row in rows if row.operator == _ONE_HOT and sizes_of(row)}
    cast_sizes = [
        sizes_of(row)[0]
        for row in rows
        if row.operator in _CASTS and sizes_of(row) and sizes_of(row)[0][:-1] in index_sizes
    ]
    widest = max((size for size in cast_sizes if size[-1] > 1), key=prod, default=None)
    return None if widest is None else (prod(widest[:-1]), widest[-1])


def _uses_vectors(work: Work, count: int, width: int) -> bool:
    """Return whether a row makes these vectors, or multiplies them."""
    sizes = sizes_of(work)
    if not sizes:
        return False
    if work.operator == _ONE_HOT:
        return prod(sizes[0]) == count
    first_size = sizes[0]
    if work.operator in _CASTS:
        return bool(first_size) and (prod(first_size[:-1]), first_size[-1]) == (count, width)
    vectors = [size for size in sizes if len(size) > 1]
    if work.operator not in _PRODUCTS:
        return False
    if work.backward:  # of the matrix: the vectors need no gradient
        return any(size == (width, count) for size in vectors[:2])
    return any((prod(size[:-1]), size[-1]) == (count, width) for size in vectors[:2])


def _vector_share(work: Work, vector_rows: Sequence[Work]) -> float:
    """Return the share of a row's calls that work on the vectors: as many as are multiplied.

    The gradients of a last layer of the same width have the same sizes.
    """
    if not any(row is work for row in vector_rows):
        return 0.0
    n_products = sum(
        row.calls for row in vector_rows if row.operator in _PRODUCTS and not row.backward
    )
    return min(1.0, n_products / work.calls) if work.calls else 0.0
