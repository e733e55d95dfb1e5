"""Hand batches over in shared memory that is used again."""

from typing import Final

from gapless.catalogue.declare import traps
from gapless.catalogue.declare.fix import Changes, Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_loaders
from gapless.catalogue.declare.targets import LOADER
from gapless.catalogue.queries.input.fresh_memory import asks_for_memory, is_torch_collate
from gapless.catalogue.queries.input.loaders import find_loading
from gapless.model.change import LoaderChange
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts, Loader

PART: Final = "recycled-collate"
_IN_USE: Final = 2  # batches of a worker beside those that it makes ahead: used, and pinned
_STAGE: Final = "collate"
# What new memory costs the training's own thread: a batch, and a byte (benchmarks/new_memory.py).
_TAKEN_NS: Final = 250_000
_FREED_BYTE_NS: Final = 0.17


def _predict_changes(evidence: Evidence, proposal: Proposal) -> Changes | None:
    """Return what is left of collating: writing each batch once, where torch's function does it.

    Of a function of the user's it is not known how much of its time asks for memory. The training
    has less to do, too, unless a thread pins batches: it maps new memory, finds and frees its
    pages.
    """
    loader = evidence.facts.find_loader_at(proposal.location)
    loading = None if loader is None else find_loading(evidence, loader)
    if loading is None or not asks_for_memory(loading) or not is_torch_collate(loading.loader):
        return None
    collate_ns = loading.n_samples * next(
        (stage.wall_ns for stage in loading.stages() if stage.name == _STAGE), 0.0
    )
    if collate_ns <= loading.min_batch_ns:
        return None
    freed_ns = round(_TAKEN_NS + _FREED_BYTE_NS * (loading.loader.batch_bytes or 0))
    change = LoaderChange(
        loading.loader.id,
        stages={_STAGE: loading.min_batch_ns / collate_ns},
        freed_ns=None if loading.loader.pin_memory else freed_ns,
    )
    return (change,)


@fix(
    PART,
    effect=_predict_changes,
    cases="""
    # Eight workers, batches of 38 MiB
    > same: workers of train.py:41 hand batches over in recycled shared memory
    gpu(worker_loader()), Wrap(LOADER, PART, {}, LOADER_LINE)
    # No workers
    > refused: the loader at train.py:41 has no workers: nothing is handed over
    gpu()
    # Already recycled
    > nothing to change: batches of train.py:41 are recycled already
    gpu(worker_loader(collate_name="recycled_collate.RecycledCollate"))
    # A container with 1 GiB of shared memory
    > refused: 8 workers × 4 batches of 38.0 MiB are 1.2 GiB, and 1.0 GiB are free in /dev/shm
    gpu(worker_loader(), machine(shm_bytes=1 << 30))
    """,
)
def recycled_collate(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let workers write batches into shared memory that is used again, not into new one.

    A worker asks the system for new shared memory for each tensor of each batch, and the system
    clears every page of it; the training maps it anew. With ``gapless.parts.recycle_batches`` each
    worker has a few pieces of memory, one for each batch on its way, and uses a piece again once
    nothing in the training refers to its batch. NumPy arrays, which are copied through a pipe
    otherwise, are handed over in the same way.

    ## Precondition
    A DataLoader with workers, on Linux or another Unix. Shared memory for the batches on their
    way and two more for each worker. Any collate function; torch's own writes right into that
    memory, what others make is copied into it.

    ## Safety
    The same values, types and order. A batch that is kept (in a list, as a view, as a NumPy array
    of it) is never overwritten: new memory is taken then. ``tensor.is_shared()`` is false for
    tensors that come this way.
    """
    return propose_for_loaders(
        recycled_collate, facts, option, lambda loader: _propose(facts, loader)
    )


def _propose(facts: Facts, loader: Loader) -> Proposal:
    line_ref = name_line(loader.location)
    if (loader.collate_name or "").endswith(".RecycledCollate"):
        reason = f"batches of {line_ref} are recycled already"
        return recycled_collate.no_change(reason, loader.location)
    if not loader.num_workers:
        reason = f"the loader at {line_ref} has no workers: nothing is handed over"
        return recycled_collate.refusal(reason, loader.location)
    n_batches = (loader.prefetch_factor or traps.DEFAULT_PREFETCH) + _IN_USE
    trap = traps.find_memory_trap(facts, loader, loader.num_workers, n_batches)
    if trap is not None:
        return recycled_collate.refusal(trap, loader.location)
    return recycled_collate.proposal(
        f"workers of {line_ref} hand batches over in recycled shared memory",
        Wrap(LOADER, PART, {}, loader.location),
        applicability=Applicability.IDENTICAL,
        location=loader.location,
    )
