"""Gradients of embeddings that are as large as their tables."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import optimizer_steps, windows
from gapless.catalogue.queries.compute import ns_per_window_step, roof_of, window_share, work_of
from gapless.model.change import Change
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import Optimizer
from gapless.model.finding import Detection, Measure
from gapless.roofline.embeddings import (
    LAUNCHES,
    LAUNCHES_OF_ADAM,
    EmbeddingTables,
    dense_tables,
    sparse_factor,
)
from gapless.roofline.roofline import add_launches, scale_changes

_MIN_STEP_SHARE: Final = 0.01  # of the step
_DENSE_OPERATORS: Final = ("aten::embedding_dense_backward", "aten::_embedding_bag_dense_backward")
_LOOKUP_OPERATORS: Final = ("aten::embedding", "aten::embedding_bag", "aten::_embedding_bag")
_MANUAL_REMEDY: Final = (
    "Make the tables with nn.Embedding(…, sparse=True) or nn.EmbeddingBag(…, sparse=True), and "
    "give them an optimizer of their own: SGD without momentum and weight decay, Adagrad, or "
    "SparseAdam, which moves a row's moments only where it was looked up. NCCL does not "
    "reduce sparse gradients, and clipping does not know them. Else: fewer rows (hashed or "
    "rare numbers together)."
)


@rule(
    "G511",
    "dense-gradients",
    figures="""
    backward_calls = operator("aten::_embedding_bag_dense_backward", 4, 2.6)
    the_optimizer = optimizer(name="torch.optim.sgd.SGD", device="cpu")
    lookup(table, n) = example_work("aten::embedding_bag", (table, (n,)), 0.2, "busy.index",
      calls=4)
    gradient(n, ms) = example_work("aten::_embedding_bag_backward", ((n, 16), (n,)), ms,
      "busy.index", calls=4, backward=True, launches=0)
    update(table, ms) = example_work("aten::add_", (table, table), ms, "busy.optimizer", calls=4,
      launches=0)
    table_work(rows, n, ms) = (lookup((rows, 16), n), gradient(n, ms), update((rows, 16), ms / 4))
    example_run(*parts) = evidence_of(cpu(the_optimizer), {"busy.index": 3, "busy.optimizer": 1,
      "busy.math": 4}, *parts)
    # Tables of 50,000 rows, 256 of which are looked up
    > Gradients of embeddings are as large as the tables, of which a step looks up 0.51 % of the
      rows at most: filling them with zeros and stepping through them takes 3.5 ms of each 8.0 ms
      step of the windows.
    example_run(*table_work(50_000, 256, 2.8), backward_calls)
    # Most rows are looked up
    example_run(*table_work(512, 256, 2.8), backward_calls)
    # Sparse gradients
    example_run(*table_work(50_000, 256, 0.1), operator("aten::_embedding_bag_sparse_backward", 4,
      0.1))
    # The table is also the output layer's matrix
    example_run(*table_work(50_000, 256, 2.8), example_work("aten::linear", ((256, 16),
      (50_000, 16)), 2, "busy.math"), backward_calls)
    # On a device, with AdamW over all parameters at once
    > Gradients of embeddings are as large as the tables, of which a step looks up 0.2 % of the rows
      at most: filling them with zeros and stepping through them takes 5.9 ms of each 16.0 ms step
      of the windows.
    gpu(model(parameters=260_000_000))
    busy.tc_math 10, busy.mem 2, busy.optimizer 4
    example_work("aten::gather", ((4_000_000, 64), (8192, 64), (8192, 64)), 0.1, "busy.index")
    example_work("aten::embedding_dense_backward", ((8192, 64), (8192,)), 0.4, "busy.index",
      backward=True)
    example_work("aten::fill_", ((4_000_000, 64),), 2, "busy.mem", backward=True)
    example_work("aten::_fused_adamw_", (), 4, "busy.optimizer")
    operator("aten::embedding_dense_backward", 1, 0.1, 2.4), h200()
    """,
)
def dense_gradients(evidence: Evidence, optimizer: Optimizer) -> Detection | None:
    """Recognise large embeddings with dense gradients, though few rows were looked up.

    ## Why it costs time
    A dense gradient is as large as its table: it is filled with zeros, a few rows are added, and
    the optimizer reads and writes the entire table, and its moments, to change these few.

    ## How it is measured
    By the operators of the windows: which tables are looked up, how many rows at most, and what
    works on tensors of their size (the backward pass of the lookup, zeros, sums, the optimizer).
    The share that is looked up remains, and the calls that sparse gradients need. A matrix of that
    size in a product may be the table itself, tied to the output layer, whose gradient is dense
    anyway: then nothing is reported.
    """
    tables = _find_tables(evidence)
    if (
        tables is None
        or window_share(evidence, tables.ns) < _MIN_STEP_SHARE
        or optimizer is not _main_optimizer(evidence)
    ):
        return None
    spent_ns = ns_per_window_step(evidence, tables.ns)
    portion = f"{100 * tables.row_share:.2g} %"
    account = evidence.study.account
    step_ns = account.wall_ns / account.steps if account.steps else 0.0
    return dense_gradients.detection(
        "Gradients of embeddings are as large as the tables, of which a step looks up "
        f"{portion} of the rows at most: filling them with zeros and stepping through them takes "
        f"{windows.ms(spent_ns)} of each {windows.ms(step_ns)} step of the windows.",
        *changes_when_sparse(evidence, tables, optimizer),
        location=windows.find_calling_function(evidence, *_LOOKUP_OPERATORS)
        or _model_location(evidence),
        measures=(
            Measure("rows of the largest table", tables.largest[0], ""),
            Measure("rows looked up in it, a call", tables.rows_by_size[tables.largest], ""),
            Measure("over whole tables, a step", spent_ns, "ns"),
        ),
        no_remedy=_MANUAL_REMEDY,
    )


def changes_when_sparse(
    evidence: Evidence, tables: EmbeddingTables, optimizer: Optimizer
) -> tuple[Change, ...]:
    """Return what changes if gradients hold only the rows that were looked up."""
    is_adam = "Adam" in optimizer.name
    factor = sparse_factor(tables, roof_of(evidence), on_device=evidence.on_device, adam=is_adam)
    launches = LAUNCHES_OF_ADAM if is_adam else LAUNCHES
    extra_launches = Estimate(
        *(count * tables.calls for count in (launches.low, launches.mid, launches.high))
    )
    rows = evidence.study.work
    return (
        *scale_changes(rows, factor),
        *(add_launches(rows, extra_launches) if evidence.on_device else ()),
    )


def _find_tables(evidence: Evidence) -> EmbeddingTables | None:
    rows = work_of(evidence)
    if (
        optimizer_steps.has_sparse_gradients(evidence)
        or not windows.sum_calls(evidence, *_DENSE_OPERATORS).count
    ):
        return None
    facts, n_steps = evidence.facts, evidence.study.account.steps or 0
    passes = facts.world.passes_a_step or 1.0
    n_parameters = sum(model.parameters or 0 for model in facts.models)
    return dense_tables(rows, n_parameters * n_steps * passes)


def _main_optimizer(evidence: Evidence) -> Optimizer | None:
    """Return the optimizer with the most parameters, which is assumed to hold the tables."""
    optimizers = evidence.facts.optimizers
    return max(optimizers, key=lambda optimizer: optimizer.tensors or 0, default=None)


def _model_location(evidence: Evidence) -> Location | None:
    """Return where the model was made."""
    models = evidence.facts.models
    return next((model.location for model in models if model.location is not None), None)
