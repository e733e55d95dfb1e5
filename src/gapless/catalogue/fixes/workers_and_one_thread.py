"""More workers, and one thread for the training's own operators: a pair."""

from dataclasses import replace

from gapless.catalogue import examples
from gapless.catalogue.choosing import each_loader
from gapless.catalogue.declare import Case, Option, fix, is_nothing, worst
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
        Case("No loader", examples.bare(), "refused: no DataLoader was seen"),
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
    second = one_thread(facts, replace(option, value=None, where=None))[0]
    if is_nothing(second) and facts.loaders:
        why = "intra-op threads are 1 already: try more-workers"
        return (workers_and_one_thread.nothing(why),)

    def make(loader: Loader) -> Proposal:
        alone = replace(facts, loaders=(loader,))
        first = more_workers(alone, replace(option, where=None))[0]
        if first.refused is not None or is_nothing(first):
            return replace(first, fix=workers_and_one_thread.name)
        return workers_and_one_thread.proposal(
            f"{first.summary}, {second.summary}",
            *first.edits,
            *second.edits,
            applicability=worst(first.applicability, second.applicability),
            risk="; ".join(filter(None, (first.risk, second.risk))) or None,
            where=loader.where,
        )

    return each_loader(workers_and_one_thread, facts, option, make)
