"""A model that is called on pieces of a batch: each of its layers again and again within a step.

By a backward pass: each parameter's gradient is added up once, and each call of a layer has a node
of its own. So nodes of layers for each gradient count how often parameters are used: once as a
rule, twice where a model sees two views, or is a generator's judge. By sizes: what pieces hold
together is a batch that other operators of the step take at once.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from gapless.catalogue import windowed
from gapless.catalogue.looping import (
    CELLS,
    PARAMETER_LEAVES,
    GRADIENT,
    LEAVES,
    Loop,
    call_overhead_ns,
    calling_ns,
    count_calls,
    count_by_operator,
)
from gapless.catalogue.products import weight_of
from gapless.model.change import Change, HostChange, Scale
from gapless.model.edit import Location
from gapless.model.interval import Estimate
from gapless.model.seen import Evidence
from gapless.model.work import Work
from gapless.replay.shorter import sizes_of

_NODES: Final[Mapping[str, int]] = {  # of layers, and how many parameters each has as a rule
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
_DRAW_CALLS: Final = ("aten::multinomial", "aten::normal")  # of a policy that a model gives
_MIN_ROUNDS: Final = 4  # fewer are views, or a generator's judge
_MAX_OTHER_SHARE: Final = 0.5
_MIN_ROUND_SHARE: Final = 0.75  # of the rounds: what is called as often belongs to them
_MAX_REMOVED_SHARE: Final = 0.95  # of a leaf: what is left, at the least
_ADDMM: Final = "aten::addmm"
# Of what calls take beside computing, so much goes with them: of five loops over data that were
# rewritten 0.6 or more, and rounds that need nothing of one another all become one.
_REMOVED_SHARE: Final = Estimate(0.4, 0.8, 1.0)
_HOST_LEAVES: Final = ("idle.host.", "idle.launch.")  # with a device
# [G] Kernels that work on a piece each leave most of a device idle; how much of it is not known.
_REMOVED_KERNEL_SHARE: Final = Estimate(0.1, 0.6, 1.0)


@dataclass(frozen=True)
class BatchPieces:
    """A batch that a model is given in pieces: sizes, and what that takes of a step."""

    rounds: float  # calls of the model, a step
    piece_rows: int  # of a piece
    batch_rows: int  # rows of all
    host_share: float  # of the training thread's operators, those of the pieces: 0 to 1
    loop: Loop  # what they take of some leaves; of a device its ``most`` is theirs


def find_pieces(evidence: Evidence) -> BatchPieces | None:
    """Return the pieces that a model is called on; ``None``: it takes a batch at once.

    Where the host reads from the model's results in each round the next one may depend on that, as
    it does where an agent acts: such rounds are no pieces.
    """
    n_gradients = windowed.sum_calls(evidence, GRADIENT).count
    node_counts = {name: windowed.sum_calls(evidence, _NODE.format(name)).count for name in _NODES}
    n_uses = sum(_NODES[name] * count for name, count in node_counts.items())
    if not n_gradients or n_uses < _MIN_ROUNDS * n_gradients:
        return None
    n_steps, work = windowed.count_steps(evidence), evidence.study.work
    split = _split_batch(work, n_steps)
    if split is None:
        return None
    rounds, piece_rows, batch_rows = split
    n_cells = windowed.sum_calls(evidence, *CELLS).count
    if max(_count_readbacks(evidence, piece_rows, n_gradients), n_cells) >= _MAX_OTHER_SHARE * rounds:
        return None
    model_work = [row for row in work if not row.leaf.startswith(PARAMETER_LEAVES)]
    piece_work = [row for row in model_work if _is_of_pieces(row, rounds * n_steps, piece_rows)]
    host_share = min(1.0, count_calls(piece_work) / max(1, count_calls(work)))
    return BatchPieces(rounds, piece_rows, batch_rows, host_share, _build_loop(work, piece_work, n_steps))


def merge_pieces(evidence: Evidence, pieces: BatchPieces) -> tuple[Change, ...]:
    """Return what changes if a model is called once, on all rows: the less is known, the wider."""
    call_share = 1 - 1 / pieces.rounds
    if not evidence.on_device:
        total_ns = evidence.per_step(*LEAVES)
        removed_share = call_share * calling_ns(evidence, pieces.loop) / total_ns if total_ns else 0.0
        return (HostChange(LEAVES, _remaining_share(removed_share, _REMOVED_SHARE)),)
    return (
        HostChange(_HOST_LEAVES, _remaining_share(call_share * pieces.host_share, _REMOVED_SHARE)),
        Scale(_remaining_share(call_share * pieces.loop.max_work_share, _REMOVED_KERNEL_SHARE), leaves=("busy.",)),
    )


def find_model_call(evidence: Evidence) -> Location | None:
    """Return the line that calls the model: the outermost at which samples stood in a forward pass.

    Sampled stacks know lines, where stacks of windows know functions alone.
    """
    recorded = evidence.study.recorded
    lines = () if recorded is None else recorded.call_lines
    for line in lines:  # most time first: a caller has all of what it calls
        if PurePath(line.callee.replace(".", "/")).name == "forward":
            return Location(line.file, line.line, line.function)
    return None


def _count_readbacks(evidence: Evidence, piece_rows: int, n_gradients: float) -> float:
    """Count, a step, what may tell of results before the next round: draws, and numbers read.

    An optimizer that goes through parameters reads one for each. Of several rows no number tells.
    """
    n_draws = windowed.sum_calls(evidence, *_DRAW_CALLS).count
    n_reads = windowed.sum_calls(evidence, _READ_CALL).count - n_gradients
    return max(n_draws, n_reads if piece_rows == 1 else 0.0)


def _remaining_share(call_share: float, removed_share: Estimate) -> Estimate:
    return Estimate(*(max(1 - _MAX_REMOVED_SHARE, 1 - call_share * share) for share in (removed_share.high, removed_share.mid, removed_share.low)))


def _split_batch(work: Iterable[Work], n_steps: int) -> tuple[float, int, int] | None:
    """Return rounds, rows of a piece and rows of the batch, of the layer that is called least.

    A vector has no rows: it may be one row that an agent acts by.
    """
    forward_rows = [row for row in work if not row.backward and not row.again]
    calls_by_layer = Counter[tuple[tuple[int, ...], int]]()
    for row in forward_rows:
        weight, sizes = weight_of(row), _input_sizes(row)
        if weight is not None and len(sizes) > 1:
            calls_by_layer[weight, sizes[0]] += row.calls
    frequent = [
        (calls / n_steps, n_rows) for (_, n_rows), calls in calls_by_layer.items() if calls >= _MIN_ROUNDS * n_steps
    ]
    for rounds, piece_rows in sorted(frequent):
        rare_sizes = {
            sizes
            for row in forward_rows
            if row.calls < _MAX_OTHER_SHARE * _MAX_OTHER_SHARE * rounds * n_steps
            and not row.leaf.startswith(PARAMETER_LEAVES)
            and (sizes := _input_sizes(row))
        }
        known_rows = rounds * piece_rows
        batch_sizes = [size for size, *_ in rare_sizes if known_rows <= size < known_rows + piece_rows]
        if batch_sizes and piece_rows not in {sizes[0] for sizes in rare_sizes if len(sizes) > 1}:
            return rounds, piece_rows, batch_sizes[0]
    return None


def _input_sizes(row: Work) -> tuple[int, ...]:
    """Return the sizes of what an operator is given first, a bias left out; none of a list."""
    if (row.inputs or "").startswith("[["):
        return ()
    sizes = sizes_of(row)
    if row.operator == _ADDMM and len(sizes) > 1:
        return sizes[1]
    return sizes[0] if sizes else ()


def _build_loop(work: Iterable[Work], piece_work: Iterable[Work], n_steps: int) -> Loop:
    """Return what the rounds take of leaves of the training thread."""
    directions = (False, True)
    total_calls = [count_calls(row for row in work if row.backward == is_backward) for is_backward in directions]
    forward, backward = ([row for row in piece_work if row.backward == is_backward] for is_backward in directions)
    total_ns = sum(row.ns for row in work) or 1
    return Loop(
        calls=count_calls(piece_work) / n_steps,
        main_operators=tuple((name, count / n_steps) for name, count in count_by_operator(forward).most_common()),
        python_share=count_calls(forward) / max(1, total_calls[0]),
        engine_share=count_calls(backward) / max(1, total_calls[1]),
        work_share=sum(map(call_overhead_ns, piece_work)) / total_ns,
        max_work_share=sum(row.ns for row in piece_work) / total_ns,
    )


def _is_of_pieces(row: Work, n_rounds: float, piece_rows: int) -> bool:
    """Return whether calls come in each round; forward, whether they take a piece, too."""
    takes_piece = row.backward or any(piece_rows in sizes for sizes in sizes_of(row))
    return takes_piece and row.calls >= _MIN_ROUND_SHARE * n_rounds
