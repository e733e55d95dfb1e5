"""Use another number of threads for the training's own operators."""

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.effects.loaders import loader_changes
from gapless.model.edit import Applicability, Proposal, SetGlobal
from gapless.model.facts import Facts


@fix(
    "intra-op-threads",
    effect=loader_changes,
    value="THREADS",
    cases="""
    # Eight threads on 16 processors
    > equivalent: intra-op threads 8 → 16
    gpu(), SetGlobal("torch.set_num_threads", 16)
    # Four ranks of a host share 16 processors
    > equivalent: intra-op threads 8 → 4
    gpu(world(ranks=4, local_ranks=4))
    # Already so
    > nothing to change: intra-op threads are already 8
    gpu(), Option(value="8")
    # The processors were not counted
    > refused: the processors were not counted: give a number by intra-op-threads=N
    bare_facts()
    """,
)
def intra_op_threads(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let the training's own operators use N threads each (``torch.set_num_threads``).

    By default: the number of processors that each process of the host may use.

    ## Precondition
    None. It matters if operators run on the CPU, and if others need the processors.

    ## Safety
    Another number of threads sums in another order: results are equal but for the last bits.
    """
    cpus, old_count = facts.machine.cpus, facts.machine.intra_op_threads
    if cpus is None and option.value is None:
        reason = "the processors were not counted: give a number by intra-op-threads=N"
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
