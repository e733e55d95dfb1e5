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
            examples.bare_facts(),
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
    cpus, old_count = facts.machine.cpus, facts.machine.intra_op_threads
    if cpus is None and option.value is None:
        reason = "the processors were not counted: say how many, by intra-op-threads=N"
        return (intra_op_threads.refusal(reason),)
    default_count = max(1, (cpus or 1) // (facts.world.local_ranks or facts.world.ranks))
    new_count = option.parse_number(default_count)
    if new_count == old_count:
        return (intra_op_threads.no_change(f"intra-op threads are already {old_count}"),)
    old_text = "?" if old_count is None else old_count
    return (
        intra_op_threads.proposal(
            f"intra-op threads {old_text} → {new_count}",
            SetGlobal("torch.set_num_threads", new_count),
            applicability=Applicability.EQUIVALENT,
            risk="sums are made in another order",
        ),
    )
