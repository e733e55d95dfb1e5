"""Gradients of embeddings that are as large as their tables."""

from typing import Final

from gapless.catalogue import examples, optimizing, windowed
from gapless.catalogue.computing import per_step, roof_of, share, work_of
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import operator
from gapless.catalogue.work_examples import h200, worked
from gapless.model.change import Change
from gapless.model.edit import Where
from gapless.model.facts import Optimizer
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.work import Work
from gapless.replay.embeddings import LAUNCHES, LAUNCHES_OF_ADAM, Tables, dense_tables, sparsely
from gapless.replay.roofline import more_launches, scales

_LEAST: Final = 0.01  # of the step
_DENSE: Final = ("aten::embedding_dense_backward", "aten::_embedding_bag_dense_backward")
_LOOKUPS: Final = ("aten::embedding", "aten::embedding_bag", "aten::_embedding_bag")
_BACK: Final = operator("aten::_embedding_bag_dense_backward", 4, 2.6)
_OPTIMIZER: Final = examples.optimizer(name="torch.optim.sgd.SGD", device="cpu")
_BY_HAND: Final = (
    "Make the tables with nn.Embedding(…, sparse=True) or nn.EmbeddingBag(…, sparse=True), and "
    "give them an optimizer of their own: SGD without momentum and weight decay, Adagrad, or "
    "SparseAdam, which moves a row's moments only where it was looked up. NCCL does not "
    "reduce sparse gradients, and clipping does not know them. Else: fewer rows (hashed or "
    "rare numbers together)."
)


def _tables(rows: int, indices: int, ms: float) -> tuple[Work, ...]:
    table = (rows, 16)
    return (
        worked("aten::embedding_bag", (table, (indices,)), 0.2, "busy.index", calls=4),
        worked(
            "aten::_embedding_bag_backward",
            ((indices, 16), (indices,)),
            ms,
            "busy.index",
            calls=4,
            backward=True,
            launches=0,
        ),
        worked("aten::add_", (table, table), ms / 4, "busy.optimizer", calls=4, launches=0),
    )


def _run(*parts: object, math: float = 4.0) -> Seen:
    leaves = {"busy.index": 3.0, "busy.optimizer": 1.0, "busy.math": math}
    return stated(examples.cpu(_OPTIMIZER), leaves, *parts)


@rule(
    "G511",
    "dense-gradients",
    since="0.1",
    figures=[
        Figure(
            "Tables of 50,000 rows, 256 of which are looked up",
            "Gradients of embeddings are as large as the tables, of which a step looks up 0.51 % "
            "of the rows at most: filling them with zeros and stepping through them takes 3.5 ms "
            "of each 8.0 ms step of the windows.",
            _run(*_tables(50_000, 256, 2.8), _BACK),
        ),
        Figure("Most rows are looked up", None, _run(*_tables(512, 256, 2.8), _BACK)),
        Figure(
            "Sparse gradients",
            None,
            _run(
                *_tables(50_000, 256, 0.1),
                operator("aten::_embedding_bag_sparse_backward", 4, 0.1),
            ),
        ),
        Figure(
            "The table is the output layer's matrix too",
            None,
            _run(
                *_tables(50_000, 256, 2.8),
                worked("aten::linear", ((256, 16), (50_000, 16)), 2, "busy.math"),
                _BACK,
            ),
        ),
        Figure(
            "On a device, with AdamW over all parameters at once",
            "Gradients of embeddings are as large as the tables, of which a step looks up 0.2 % of "
            "the rows at most: filling them with zeros and stepping through them takes 5.9 ms of "
            "each 16.0 ms step of the windows.",
            stated(
                examples.gpu(examples.model(parameters=260_000_000)),
                {"busy.tc_math": 10, "busy.mem": 2, "busy.optimizer": 4},
                worked(
                    "aten::gather", ((4_000_000, 64), (8192, 64), (8192, 64)), 0.1, "busy.index"
                ),
                worked(
                    "aten::embedding_dense_backward",
                    ((8192, 64), (8192,)),
                    0.4,
                    "busy.index",
                    backward=True,
                ),
                worked("aten::fill_", ((4_000_000, 64),), 2, "busy.mem", backward=True),
                worked("aten::_fused_adamw_", (), 4, "busy.optimizer"),
                operator("aten::embedding_dense_backward", 1, 0.1, 2.4),
                h200(),
            ),
        ),
    ],
)
def dense_gradients(seen: Seen, optimizer: Optimizer) -> Loss | None:
    """Recognise large embeddings whose gradient is written whole, though few rows were looked up.

    ## Why it costs time
    A dense gradient is as large as its table: it is filled with zeros, a few rows are added, and
    the optimizer reads and writes the whole table, and its moments, to change these few.

    ## How it is measured
    By the operators of the windows: which tables are looked up, how many rows at most, and what
    goes over tensors of their size (the backward pass of the lookup, zeros, sums, the optimizer).
    The share that is looked up stays, and the calls that sparse gradients bring. A matrix of that
    size in a product may be the table itself, tied to the output layer, whose gradient is dense in
    any case: then nothing is said.
    """
    found = _found(seen)
    if found is None or share(seen, found.ns) < _LEAST or optimizer is not _first(seen):
        return None
    spent = per_step(seen, found.ns)
    touched = f"{100 * found.touched:.2g} %"
    account = seen.study.account
    step = account.wall_ns / account.steps if account.steps else 0.0
    return dense_gradients.loss(
        "Gradients of embeddings are as large as the tables, of which a step looks up "
        f"{touched} of the rows at most: filling them with zeros and stepping through them takes "
        f"{windowed.ms(spent)} of each {windowed.ms(step)} step of the windows.",
        *sparse(seen, found, optimizer),
        where=windowed.site(seen, *_LOOKUPS) or _model(seen),
        evidence=(
            Measure("rows of the largest table", found.largest[0], ""),
            Measure("rows looked up in it, a call", found.looked_up[found.largest], ""),
            Measure("over whole tables, a step", spent, "ns"),
        ),
        no_remedy=_BY_HAND,
    )


def sparse(seen: Seen, found: Tables, optimizer: Optimizer) -> tuple[Change, ...]:
    """Give what changes if gradients hold the rows that were looked up, and no others."""
    adam = "Adam" in optimizer.name
    factor = sparsely(found, roof_of(seen), on_device=seen.on_device, adam=adam)
    each = LAUNCHES_OF_ADAM if adam else LAUNCHES
    more = Interval(*(one * found.calls for one in (each.low, each.mid, each.high)))
    rows = seen.study.work
    return (*scales(rows, factor), *(more_launches(rows, more) if seen.on_device else ()))


def _found(seen: Seen) -> Tables | None:
    rows = work_of(seen)
    if optimizing.sparse(seen) or not windowed.calls(seen, *_DENSE).count:
        return None
    facts, steps = seen.facts, seen.study.account.steps or 0
    models = () if facts is None else facts.models
    passes = 1.0 if facts is None else facts.world.micro_batches or 1.0
    return dense_tables(rows, sum(one.parameters or 0 for one in models) * steps * passes)


def _first(seen: Seen) -> Optimizer | None:
    """Give the optimizer of most parameters: the tables are taken to be its own."""
    every = () if seen.facts is None else seen.facts.optimizers
    return max(every, key=lambda one: one.tensors or 0, default=None)


def _model(seen: Seen) -> Where | None:
    """Give where the model was made."""
    models = () if seen.facts is None else seen.facts.models
    return next((one.where for one in models if one.where is not None), None)
