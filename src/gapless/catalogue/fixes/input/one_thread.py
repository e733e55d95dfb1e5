"""Use one thread for the training's own operators."""

from msgspec.structs import replace

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.effects.loaders import loader_changes
from gapless.catalogue.fixes.input.intra_op_threads import intra_op_threads
from gapless.model.edit import Proposal
from gapless.model.facts import Facts


@fix(
    "one-thread",
    effect=loader_changes,
    cases="""
    # Eight threads
    > equivalent: intra-op threads 8 → 1
    gpu(), SetGlobal("torch.set_num_threads", 1)
    # One thread
    > nothing to change: intra-op threads are already 1
    gpu(machine(intra_op_threads=1))
    """,
)
def one_thread(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let the training's own operators use one thread each: ``intra-op-threads=1``.

    OpenMP threads spin while they wait for work. Beside workers, or on a shared machine, they
    occupy processors without any use.

    ## Precondition
    More than one intra-op thread.

    ## Safety
    One thread sums in another order than several: results are equal but for the last bits.
    """
    proposals = intra_op_threads(facts, replace(option, value="1"))
    return tuple(replace(proposal, fix=one_thread.name) for proposal in proposals)
