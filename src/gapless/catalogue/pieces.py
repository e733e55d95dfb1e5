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
    ELSEWHERE,
    GRADIENT,
    LEAVES,
    Loop,
    beside_ns,
    calling_ns,
    calls_of,
    names_of,
)
from gapless.catalogue.products import weight_of
from gapless.model.change import Change, Hosted, Scale
from gapless.model.edit import Where
from gapless.model.interval import Interval
from gapless.model.seen import Seen
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
_READ: Final = "aten::_local_scalar_dense"
_DRAWN: Final = ("aten::multinomial", "aten::normal")  # of a policy that a model gives
_ROUNDS: Final = 4  # fewer are views, or a generator's judge
_HALF: Final = 0.5
_NEARLY: Final = 0.75  # of the rounds: what is called as often belongs to them
_MOST: Final = 0.95  # of a leaf: what is left, at the least
_ADDMM: Final = "aten::addmm"
# Of what calls take beside computing, so much goes with them: of five loops over data that were
# rewritten 0.6 or more, and rounds that need nothing of one another all become one.
_GOES: Final = Interval(0.4, 0.8, 1.0)
_HOST: Final = ("idle.host.", "idle.launch.")  # with a device
# [G] Kernels that work on a piece each leave most of a device idle; how much of it is not known.
_KERNELS: Final = Interval(0.1, 0.6, 1.0)


@dataclass(frozen=True)
class Pieces:
    """A batch that a model is given in pieces: sizes, and what that takes of a step."""

    rounds: float  # calls of the model, a step
    rows: int  # of a piece
    batch: int  # rows of all
    host: float  # of the training thread's operators, those of the pieces: 0 to 1
    loop: Loop  # what they take of some leaves; of a device its ``most`` is theirs


def pieces_of(seen: Seen) -> Pieces | None:
    """Give the pieces that a model is called on; ``None``: it takes a batch at once.

    Where the host reads from the model's results in each round the next one may depend on that, as
    it does where an agent acts: such rounds are no pieces.
    """
    gradients = windowed.calls(seen, GRADIENT).count
    nodes = {name: windowed.calls(seen, _NODE.format(name)).count for name in _NODES}
    uses = sum(_NODES[name] * count for name, count in nodes.items())
    if not gradients or uses < _ROUNDS * gradients:
        return None
    steps, work = windowed.steps(seen), seen.study.work
    found = _parted(work, steps)
    if found is None:
        return None
    rounds, rows, batch = found
    cells = windowed.calls(seen, *CELLS).count
    if max(_asked(seen, rows, gradients), cells) >= _HALF * rounds:
        return None
    every = [one for one in work if not one.leaf.startswith(ELSEWHERE)]
    mine = [one for one in every if _is_of_pieces(one, rounds * steps, rows)]
    share = min(1.0, calls_of(mine) / max(1, calls_of(work)))
    return Pieces(rounds, rows, batch, share, _loop(work, mine, steps))


def whole(seen: Seen, pieces: Pieces) -> tuple[Change, ...]:
    """Give what changes if a model is called once, on all rows: the less is known, the wider."""
    goes = 1 - 1 / pieces.rounds
    if not seen.on_device:
        every = seen.per_step(*LEAVES)
        gone = goes * calling_ns(seen, pieces.loop) / every if every else 0.0
        return (Hosted(LEAVES, _left(gone, _GOES)),)
    return (
        Hosted(_HOST, _left(goes * pieces.host, _GOES)),
        Scale(_left(goes * pieces.loop.most, _KERNELS), leaves=("busy.",)),
    )


def calling(seen: Seen) -> Where | None:
    """Give the line that calls the model: the outermost at which samples stood in a forward pass.

    Sampled stacks know lines, where stacks of windows know functions alone.
    """
    recorded = seen.study.recorded
    rows = () if recorded is None else recorded.call_lines
    for one in rows:  # most time first: a caller has all of what it calls
        if PurePath(one.called.replace(".", "/")).name == "forward":
            return Where(one.file, one.line, one.function)
    return None


def _asked(seen: Seen, rows: int, gradients: float) -> float:
    """Count, a step, what may tell of results before the next round: draws, and numbers read.

    An optimizer that goes through parameters reads one for each. Of several rows no number tells.
    """
    drawn = windowed.calls(seen, *_DRAWN).count
    read = windowed.calls(seen, _READ).count - gradients
    return max(drawn, read if rows == 1 else 0.0)


def _left(gone: float, goes: Interval) -> Interval:
    return Interval(*(max(1 - _MOST, 1 - gone * part) for part in (goes.high, goes.mid, goes.low)))


def _parted(work: Iterable[Work], steps: int) -> tuple[float, int, int] | None:
    """Give rounds, rows of a piece and rows of the batch, of the layer that is called least.

    A vector has no rows: it may be one row that an agent acts by.
    """
    forward = [one for one in work if not one.backward and not one.again]
    layers = Counter[tuple[tuple[int, ...], int]]()
    for one in forward:
        weight, given = weight_of(one), _given(one)
        if weight is not None and len(given) > 1:
            layers[weight, given[0]] += one.calls
    often = [
        (calls / steps, rows) for (_, rows), calls in layers.items() if calls >= _ROUNDS * steps
    ]
    for rounds, rows in sorted(often):
        seldom = {
            given
            for one in forward
            if one.calls < _HALF * _HALF * rounds * steps
            and not one.leaf.startswith(ELSEWHERE)
            and (given := _given(one))
        }
        several = rounds * rows
        batch = [first for first, *_ in seldom if several <= first < several + rows]
        if batch and rows not in {given[0] for given in seldom if len(given) > 1}:
            return rounds, rows, batch[0]
    return None


def _given(row: Work) -> tuple[int, ...]:
    """Give the sizes of what an operator is given first, a bias left out; none of a list."""
    if (row.inputs or "").startswith("[["):
        return ()
    sizes = sizes_of(row)
    if row.operator == _ADDMM and len(sizes) > 1:
        return sizes[1]
    return sizes[0] if sizes else ()


def _loop(work: Iterable[Work], mine: Iterable[Work], steps: int) -> Loop:
    """Give what the rounds take of leaves of the training thread."""
    both = (False, True)
    of_all = [calls_of(one for one in work if one.backward == back) for back in both]
    forward, backward = ([one for one in mine if one.backward == back] for back in both)
    ns = sum(one.ns for one in work) or 1
    return Loop(
        calls=calls_of(mine) / steps,
        mainly=tuple((name, many / steps) for name, many in names_of(forward).most_common()),
        python=calls_of(forward) / max(1, of_all[0]),
        engine=calls_of(backward) / max(1, of_all[1]),
        work=sum(map(beside_ns, mine)) / ns,
        most=sum(one.ns for one in mine) / ns,
    )


def _is_of_pieces(row: Work, often: float, rows: int) -> bool:
    """Tell whether calls come in each round; forward, whether they take a piece, too."""
    taken = row.backward or any(rows in one for one in sizes_of(row))
    return taken and row.calls >= _NEARLY * often
