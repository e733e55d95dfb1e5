"""Another number of threads for the training's own operators."""

from gapless.catalogue import examples
from gapless.catalogue.declare import Case, Option, fix
from gapless.model.edit import Applicability, Proposal, SetGlobal
from gapless.model.facts import Facts


@fix(
    "intra-op-threads",
    since="0.1",
    value="THREADS",
    cases=[
        Case(
            "Eight threads on 16 processors",
            examples.gpu(),
            "equivalent: intra-op threads 8 → 16",
            edits=(SetGlobal("torch.set_num_threads", 16),),
        ),
        Case(
            "Four ranks of a host share 16 processors",
            examples.gpu(examples.world(ranks=4, local_ranks=4)),
            "equivalent: intra-op threads 8 → 4",
        ),
        Case(
            "It is so already",
            examples.gpu(),
            "nothing to change: intra-op threads are already 8",
            Option(value="8"),
        ),
        Case(
            "The processors were not counted",
            examples.bare(),
            "refused: the processors were not counted: say how many, by intra-op-threads=N",
        ),
    ],
)
def intra_op_threads(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let the training's own operators use N threads each (``torch.set_num_threads``).

    Without a number: the processors that each process of the host may use.

    ## Precondition
    None. It matters where operators run on the CPU, and where others need the processors.

    ## Safety
    Sums that are made by another number of threads are made in another order: equal but for the
    last bits.
    """
    cpus, have = facts.machine.cpus, facts.machine.intra_op_threads
    if cpus is None and option.value is None:
        why = "the processors were not counted: say how many, by intra-op-threads=N"
        return (intra_op_threads.refusal(why),)
    share = max(1, (cpus or 1) // (facts.world.local_ranks or facts.world.ranks))
    many = option.number(share)
    if many == have:
        return (intra_op_threads.nothing(f"intra-op threads are already {have}"),)
    before = "?" if have is None else have
    return (
        intra_op_threads.proposal(
            f"intra-op threads {before} → {many}",
            SetGlobal("torch.set_num_threads", many),
            applicability=Applicability.EQUIVALENT,
            risk="sums are made in another order",
        ),
    )
