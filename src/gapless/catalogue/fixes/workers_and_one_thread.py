"""More workers, and one thread for the training's own operators: a pair."""

from dataclasses import replace

from gapless.catalogue import examples
from gapless.catalogue.choosing import propose_for_loaders
from gapless.catalogue.declare import Case, Option, fix, changes_nothing, worst_applicability
from gapless.catalogue.fixes.more_workers import more_workers
from gapless.catalogue.fixes.one_thread import one_thread
from gapless.catalogue.targets import LOADER
from gapless.model.edit import Proposal, SetArgument, SetGlobal
from gapless.model.facts import Facts, Loader


@fix(
    "workers-and-one-thread",
    since="0.1",
    value="WORKERS",
    cases=[
        Case(
            "Two processors",
            examples.cpu(),
            "equivalent: num_workers 0 → 2 at train.py:41, intra-op threads 2 → 1",
            edits=(
                SetArgument(LOADER, "num_workers", 2, examples.LOADER_LINE),
                SetGlobal("torch.set_num_threads", 1),
            ),
        ),
        Case(
            "One thread is what it has",
            examples.cpu(examples.machine(cpus=2, intra_op_threads=1)),
            "nothing to change: intra-op threads are 1 already: try more-workers",
        ),
        Case("No loader", examples.bare_facts(), "refused: no DataLoader was seen"),
        Case(
            "A stream that every worker would read from its start",
            examples.cpu(
                examples.loader(iterable=True, dataset="__main__.Lines", asks_worker_info=False)
            ),
            "refused: Lines is an IterableDataset that never asks get_worker_info(): each of 2 "
            "workers would give every sample once",
        ),
    ],
)
def workers_and_one_thread(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let workers make batches, and the training's own operators use one thread.

    On few processors neither helps alone: the training's OpenMP threads spin while they wait, and
    take the processors that the workers need.

    ## Precondition
    Those of ``more-workers``, and more than one intra-op thread.

    ## Safety
    As ``more-workers``; and sums that were made by several threads are made in another order.
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
            applicability=worst_applicability(workers_proposal.applicability, thread_proposal.applicability),
            risk="; ".join(filter(None, (workers_proposal.risk, thread_proposal.risk))) or None,
            location=loader.location,
        )

    return propose_for_loaders(workers_and_one_thread, facts, option, propose)
