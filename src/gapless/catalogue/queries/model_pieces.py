"""A model that is called on pieces of a batch: each of its layers again and again within a step.

A backward pass shows it: each parameter's gradient is accumulated once, and each call of a layer
has its own node. So the nodes of layers per gradient count how often parameters are used: usually
once, twice where a model sees two views, or is a generator's discriminator. Sizes show it, too:
the pieces together make a batch that other operators of the step take at once.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Final

from msgspec import Struct
from msgspec.structs import astuple

from gapless.catalogue.queries import windows
from gapless.catalogue.queries.loops import (
    CELLS,
    GRADIENT,
    LEAVES,
    Loop,
    call_overhead_ns,
    calling_ns,
    count_by_operator,
    count_calls,
)
from gapless.catalogue.queries.products import weight_of
from gapless.model.change import Change, HostChange, Scale
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.leaf import PARAMETER_LEAVES
from gapless.model.work import Work
from gapless.roofline.padding import sizes_of

_NODES: Final[Mapping[str, int]] = {  # of layers, and how many parameters each usually has
    "ConvolutionBackward0": 2,
    "AddmmBackward0": 2,
    "LinearBackward0": 2,
    "MkldnnLinearBackward0": 2,
    "MmBackward0": 1,
    "NativeBatchNormBackward0": 2,
    "CudnnBatchNormBackward0": 2,
    "NativeLayerNormBackward0": 2,
    "NativeGroupNormBackward0": 2,
    "CudnnRnnBackward0": 4,
    "MkldnnRnnLayerBackward0": 4,
    "EmbeddingBackward0": 1,
}
_NODE: Final = "autograd::engine::evaluate_function: {}"
_READ_CALL: Final = "aten::_local_scalar_dense"
_DRAW_CALLS: Final = ("aten::multinomial", "aten::normal")  # draws from a policy that a model gives
_RECURRENT_LAYERS: Final = ("aten::gru", "aten::lstm", "aten::rnn_tanh", "aten::rnn_relu")
_DIMENSIONS: Final = 3  # of a batch of sequences, and of a layer's state
_MIN_ROUNDS: Final = 4  # fewer are views, or a generator's discriminator
_MAX_OTHER_SHARE: Final = 0.5
_MIN_ROUND_SHARE: Final = 0.75  # of the rounds: operators called as often belong to them
_MAX_REMOVED_SHARE: Final = 0.95  # of a leaf, at most
_ADDMM: Final = "aten::addmm"
# Share of the overhead of calls that is saved: 0.6 or more in five loops over data that were
# rewritten, and independent rounds all become one.
_REMOVED_SHARE: Final = Estimate(0.4, 0.8, 1.0)
_HOST_LEAVES: Final = ("idle.host.", "idle.launch.")  # with a device
# Assumed: kernels on a single piece leave most of a device idle; how much is not known.
_REMOVED_KERNEL_SHARE: Final = Estimate(0.1, 0.6, 1.0)


_PRODUCTS: Final = ("aten::linear",)
_ATTENTION: Final = ("aten::bmm", "aten::baddbmm", "aten::softmax")  # what is split are its heads
_MIN_PARTS: Final = 2.0  # products in each call
_PASSES: Final = 3.0  # forward, and two products backward
_PYTHON_LEAF: Final = "idle.host.python"
_SPLITS: Final = ("aten::split", "aten::chunk", "aten::split_with_sizes", "aten::tensor_split")
_JOINS: Final = ("aten::cat", "aten::stack")
_NODES_OF_JOINS: Final = tuple(
    _NODE.format(name)
    for name in ("SplitBackward", "SplitWithSizesBackward", "CatBackward", "StackBackward")
)
_SPARED_PRODUCT: Final = Estimate(
    0.0, 0.05, 0.2
)  # of products in parts, that one of all takes less


class ProductParts(Struct, frozen=True):
    """A function of the user's that computes a product in parts."""

    location: Location
    products: float  # in each call
    around_ns: float  # of splitting and putting together, in a step
    share: Estimate  # of the step that goes


class BatchPieces(Struct, frozen=True):
    """A batch that a model is given in pieces: its sizes, and what that costs in a step."""

    rounds: float  # calls of the model, a step
    piece_rows: int  # of a piece
    batch_rows: int  # of the whole batch
    host_share: float  # of the training thread's operators, 0 to 1
    loop: Loop  # what they take of some leaves; ``max_work_share`` on a device


def find_pieces(evidence: Evidence) -> BatchPieces | None:
    """Return the pieces that a model is called on; ``None``: it takes a batch at once.

    If the host reads the model's results in each round, the next one may depend on them, as when
    an agent acts: such rounds are not pieces. Nor are the time steps of a decoder.
    """
    n_gradients = windows.sum_calls(evidence, GRADIENT).count
    node_counts = {name: windows.sum_calls(evidence, _NODE.format(name)).count for name in _NODES}
    n_uses = sum(_NODES[name] * count for name, count in node_counts.items())
    if not n_gradients or n_uses < _MIN_ROUNDS * n_gradients:
        return None
    n_steps, work = windows.count_steps(evidence), evidence.study.work
    split = _split_batch(work, n_steps)
    if split is None:
        return None
    rounds, piece_rows, batch_rows = split
    n_cells = windows.sum_calls(evidence, *CELLS).count + _count_time_steps(work) / n_steps
    if (
        max(_count_readbacks(evidence, piece_rows, n_gradients), n_cells)
        >= _MAX_OTHER_SHARE * rounds
    ):
        return None
    model_work = [row for row in work if not row.leaf.startswith(PARAMETER_LEAVES)]
    piece_work = [row for row in model_work if _is_of_pieces(row, rounds * n_steps, piece_rows)]
    host_share = min(1.0, count_calls(piece_work) / max(1, count_calls(work)))
    return BatchPieces(
        rounds, piece_rows, batch_rows, host_share, _build_loop(work, piece_work, n_steps)
    )


def find_product_parts(evidence: Evidence) -> ProductParts | None:
    """Return the function that splits, multiplies and joins for longest, without a device."""
    step_ns = evidence.step_ns
    if evidence.on_device or not step_ns or not evidence.study.sites:
        return None
    n_steps = windows.count_steps(evidence)
    sites_by_function = windows.group_sites(evidence)
    joined_ns = sum(
        site.ns for site in evidence.study.sites if site.name.startswith(_NODES_OF_JOINS)
    )
    parts: list[ProductParts] = []
    for line in evidence.study.tables.lines:
        function = line.file, line.line, line.function
        sites = sites_by_function.get(function, ())
        calls = {
            kind: sum(site.calls for site in sites if site.name in names)
            for kind, names in (("products", _PRODUCTS), ("splits", _SPLITS), ("joins", _JOINS))
        }
        if not line.calls or min(calls["splits"], calls["joins"]) < line.calls:
            continue
        n_products = calls["products"] / line.calls
        if n_products < _MIN_PARTS or any(site.name in _ATTENTION for site in sites):
            continue
        around_ns = joined_ns + sum(
            site.ns for site in sites if site.name in (*_SPLITS, *_JOINS, _PYTHON_LEAF)
        )
        product_ns = sum(site.ns for site in sites if site.name in _PRODUCTS)
        bounds = (
            min(1.0, (around_ns + _PASSES * product_ns * spared) / n_steps / step_ns)
            for spared in astuple(_SPARED_PRODUCT)
        )
        parts.append(
            ProductParts(Location(*function), n_products, around_ns / n_steps, Estimate(*bounds))
        )
    return max(parts, key=lambda piece: piece.around_ns, default=None)


def merge_pieces(evidence: Evidence, pieces: BatchPieces) -> tuple[Change, ...]:
    """Return what changes if a model is called once, on all rows."""
    call_share = 1 - 1 / pieces.rounds
    if not evidence.on_device:
        total_ns = evidence.per_step(*LEAVES)
        removed_share = (
            call_share * calling_ns(evidence, pieces.loop) / total_ns if total_ns else 0.0
        )
        return (HostChange(LEAVES, _remaining_share(removed_share, _REMOVED_SHARE)),)
    return (
        HostChange(_HOST_LEAVES, _remaining_share(call_share * pieces.host_share, _REMOVED_SHARE)),
        Scale(
            _remaining_share(call_share * pieces.loop.max_work_share, _REMOVED_KERNEL_SHARE),
            leaves=("busy.",),
        ),
    )


def find_model_call(evidence: Evidence) -> Location | None:
    """Return the line that calls the model: the outermost one sampled during a forward pass.

    Sampled stacks have lines, stacks of windows only functions.
    """
    lines = evidence.call_lines
    for line in lines:  # most time first: a caller includes what it calls
        if PurePath(line.callee.replace(".", "/")).name == "forward":
            return Location(line.file, line.line, line.function)
    return None


def _count_time_steps(work: Iterable[Work]) -> float:
    """Count the calls of recurrent layers that are given one time step: its state has all rows."""
    calls = [(row, sizes_of(row)[:2]) for row in work if row.operator in _RECURRENT_LAYERS]
    return sum(
        row.calls
        for row, sizes in calls
        if list(map(len, sizes)) == [_DIMENSIONS, _DIMENSIONS]
        and sizes[0][0] * sizes[0][1] == sizes[1][1]
    )


def _count_readbacks(evidence: Evidence, piece_rows: int, n_gradients: float) -> float:
    """Count what may depend on results before the next round, in a step: draws, and values read.

    An optimizer that loops over parameters reads one for each. A value cannot hold several rows.
    """
    n_draws = windows.sum_calls(evidence, *_DRAW_CALLS).count
    n_reads = windows.sum_calls(evidence, _READ_CALL).count - n_gradients
    return max(n_draws, n_reads if piece_rows == 1 else 0.0)


def _remaining_share(call_share: float, removed_share: Estimate) -> Estimate:
    return Estimate(
        *(
            max(1 - _MAX_REMOVED_SHARE, 1 - call_share * share)
            for share in (removed_share.high, removed_share.mid, removed_share.low)
        )
    )


def _split_batch(work: Iterable[Work], n_steps: int) -> tuple[float, int, int] | None:
    """Return rounds, rows of a piece and rows of the batch, for the layer that is called least.

    A vector has no rows: it may be the single row that an agent acts on.
    """
    forward_rows = [row for row in work if not row.backward and not row.again]
    calls_by_layer = Counter[tuple[tuple[int, ...], int]]()
    for row in forward_rows:
        weight, sizes = weight_of(row), _input_sizes(row)
        if weight is not None and len(sizes) > 1:
            calls_by_layer[weight, sizes[0]] += row.calls
    frequent = [
        (calls / n_steps, n_rows)
        for (_, n_rows), calls in calls_by_layer.items()
        if calls >= _MIN_ROUNDS * n_steps
    ]
    for rounds, piece_rows in sorted(frequent):
        rare_sizes = {
            sizes
            for row in forward_rows
            if row.calls <= _MAX_OTHER_SHARE * _MAX_OTHER_SHARE * rounds * n_steps
            and not row.leaf.startswith(PARAMETER_LEAVES)
            and (sizes := _input_sizes(row))
        }
        known_rows = rounds * piece_rows
        batch_sizes = [
            size for size, *_ in rare_sizes if known_rows <= size < known_rows + piece_rows
        ]
        if batch_sizes and piece_rows not in {sizes[0] for sizes in rare_sizes if len(sizes) > 1}:
            return rounds, piece_rows, batch_sizes[0]
    return None


def _input_sizes(row: Work) -> tuple[int, ...]:
    """Return the sizes of the first input of an operator other than a bias; none for a list."""
    if (row.inputs or "").startswith("[["):
        return ()
    sizes = sizes_of(row)
    if row.operator == _ADDMM and len(sizes) > 1:
        return sizes[1]
    return sizes[0] if sizes else ()


def _build_loop(work: Iterable[Work], piece_work: Iterable[Work], n_steps: int) -> Loop:
    """Return what the rounds take of the leaves of the training thread."""
    directions = (False, True)
    total_calls = [
        count_calls(row for row in work if row.backward == is_backward)
        for is_backward in directions
    ]
    forward, backward = (
        [row for row in piece_work if row.backward == is_backward] for is_backward in directions
    )
    total_ns = sum(row.ns for row in work) or 1
    max_rate = max((row.flops / row.ns for row in work if row.flops and row.ns), default=1.0)
    return Loop(
        calls=count_calls(piece_work) / n_steps,
        main_operators=tuple(
            (name, count / n_steps) for name, count in count_by_operator(forward).most_common()
        ),
        python_share=count_calls(forward) / max(1, total_calls[0]),
        engine_share=count_calls(backward) / max(1, total_calls[1]),
        work_share=sum(_overhead_ns(row, max_rate) for row in piece_work) / total_ns,
        max_work_share=sum(row.ns for row in piece_work) / total_ns,
    )


def _overhead_ns(row: Work, max_rate: float) -> float:
    """Return the overhead of calls, where none computes faster than the fastest of the run.

    ``max_rate`` is in operations a ns: rows of a batch that each compute long gain little together.
    """
    return min(call_overhead_ns(row), max(0.0, row.ns - (row.flops or 0) / max_rate))


def _is_of_pieces(row: Work, n_rounds: float, piece_rows: int) -> bool:
    """Return whether calls occur in each round and, if forward, take a piece."""
    takes_piece = row.backward or any(piece_rows in sizes for sizes in sizes_of(row))
    return takes_piece and row.calls >= _MIN_ROUND_SHARE * n_rounds
