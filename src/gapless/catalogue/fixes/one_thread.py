"""One thread for the training's own operators."""

from dataclasses import replace

from gapless.catalogue import examples
from gapless.catalogue.declare import Case, Option, fix
from gapless.catalogue.fixes.intra_op_threads import intra_op_threads
from gapless.model.edit import Proposal, SetGlobal
from gapless.model.facts import Facts


@fix(
    "one-thread",
    since="0.1",
    cases=[
        Case(
            "Eight threads",
            examples.gpu(),
            "equivalent: intra-op threads 8 → 1",
            edits=(SetGlobal("torch.set_num_threads", 1),),
        ),
        Case(
            "One thread",
            examples.gpu(examples.machine(intra_op_threads=1)),
            "nothing to change: intra-op threads are already 1",
        ),
    ],
)
def one_thread(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let the training's own operators use one thread each: ``intra-op-threads=1``.

    Threads of OpenMP spin while they wait for work. Beside workers, or on a machine that others
    use, they take processors and give nothing.

    ## Precondition
    More than one intra-op thread.

    ## Safety
    Sums that were made by several threads are made in another order: equal but for the last bits.
    """
    proposals = intra_op_threads(facts, replace(option, value="1"))
    return tuple(replace(proposal, fix=one_thread.name) for proposal in proposals)
