"""Use more workers, together with one thread for the training's own operators."""

from msgspec.structs import replace

from gapless.catalogue.declare.fix import Option, changes_nothing, fix, worst_applicability
from gapless.catalogue.declare.selectors import propose_for_loaders
from gapless.catalogue.effects.loaders import loader_changes
from gapless.catalogue.fixes.input.more_workers import more_workers
from gapless.catalogue.fixes.input.one_thread import one_thread
from gapless.catalogue.queries.input.loaders import Loading
from gapless.model.edit import FixRequest, Proposal
from gapless.model.facts import Facts, Loader


@fix(
    "workers-and-one-thread",
    effect=loader_changes,
    value="WORKERS",
    cases="""
    # Two processors
    > equivalent: num_workers 0 → 2 at train.py:41, intra-op threads 2 → 1
    cpu(), SetArgument(LOADER, "num_workers", 2, LOADER_LINE)
    SetGlobal("torch.set_num_threads", 1)
    # It has one thread already
    > nothing to change: intra-op threads are 1 already: try more-workers
    cpu(machine(cpus=2, intra_op_threads=1))
    # No loader
    > refused: no DataLoader was seen
    bare_facts()
    # A stream that every worker would read from the start
    > refused: Lines is an IterableDataset that never asks get_worker_info(): each of 2 workers
      would yield every sample once
    cpu(loader(iterable=True, dataset="__main__.Lines", asks_worker_info=False))
    """,
)
def workers_and_one_thread(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let workers make batches, and the training's own operators use one thread.

    On few processors neither helps alone: the training's OpenMP threads spin while they wait, and
    occupy the processors that the workers need.

    ## Precondition
    Those of ``more-workers``, and more than one intra-op thread.

    ## Safety
    As for ``more-workers``; and one thread sums in another order than several.
    """
    thread_proposal = one_thread(facts, replace(option, value=None, line_ref=None))[0]
    if changes_nothing(thread_proposal) and facts.loaders:
        reason = "intra-op threads are 1 already: try more-workers"
        return (workers_and_one_thread.no_change(reason),)

    def propose(loader: Loader) -> Proposal:
        loader_facts = replace(facts, loaders=(loader,))
        workers_proposal = more_workers(loader_facts, replace(option, line_ref=None))[0]
        if workers_proposal.refused is not None or changes_nothing(workers_proposal):
            return replace(workers_proposal, fix=workers_and_one_thread.name)
        return workers_and_one_thread.proposal(
            f"{workers_proposal.summary}, {thread_proposal.summary}",
            *workers_proposal.edits,
            *thread_proposal.edits,
            applicability=worst_applicability(
                workers_proposal.applicability, thread_proposal.applicability
            ),
            risk="; ".join(filter(None, (workers_proposal.risk, thread_proposal.risk))) or None,
            location=loader.location,
        )

    return propose_for_loaders(workers_and_one_thread, facts, option, propose)


def request_workers(loading: Loading, fixed_count: int | None = None) -> tuple[FixRequest, ...]:
    """Return the fixes that set the numbers of workers to try, the likeliest first.

    Where the training computes on the same processors, its own threads get in the way of workers.
    ``fixed_count``: this number and no other.
    """
    numbers = (
        (loading.target_workers(), *loading.alternative_workers())
        if fixed_count is None
        else (fixed_count,)
    )
    return tuple(fix for n_workers in numbers for fix in _request_count(loading, n_workers))


def _request_count(loading: Loading, n_workers: int) -> tuple[FixRequest, ...]:
    plain_request = loading.request(more_workers, n_workers)
    if not loading.is_crowded(n_workers):
        return (plain_request,)
    return (loading.request(workers_and_one_thread, n_workers), plain_request)
