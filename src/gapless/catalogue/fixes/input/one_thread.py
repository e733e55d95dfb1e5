"""Use one thread for the training's own operators."""

from msgspec.structs import replace

from gapless.catalogue.declare.fix import Case, Option, fix
from gapless.catalogue.effects.loaders import loader_changes
from gapless.catalogue.examples import example_facts
from gapless.catalogue.fixes.input.intra_op_threads import intra_op_threads
from gapless.model.edit import Proposal, SetGlobal
from gapless.model.facts import Facts


@fix(
    "one-thread",
    effect=loader_changes,
    cases=lambda: [
        Case(
            "Eight threads",
            example_facts.gpu(),
            "equivalent: intra-op threads 8 → 1",
            edits=(SetGlobal("torch.set_num_threads", 1),),
        ),
        Case(
            "One thread",
            example_facts.gpu(example_facts.machine(intra_op_threads=1)),
            "nothing to change: intra-op threads are already 1",
        ),
    ],
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
