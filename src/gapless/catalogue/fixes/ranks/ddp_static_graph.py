"""Tell DDP that the graph is the same in each step."""

from typing import Final

from gapless.catalogue.declare.fix import Case, Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_ddp
from gapless.catalogue.declare.targets import DDP
from gapless.catalogue.examples import example_facts
from gapless.model.edit import Applicability, Proposal, SetArgument
from gapless.model.facts import Facts, Parallel

_ARGUMENT: Final = "static_graph"


@fix(
    "ddp-static-graph",
    since="0.1",
    cases=lambda: [
        Case(
            "torch's default",
            example_facts.gpu(example_facts.ddp(static_graph=False)),
            "risky: static_graph False → True at train.py:48",
            edits=(SetArgument(DDP, _ARGUMENT, value=True, where=example_facts.MODEL_LINE),),
        ),
        Case(
            "Already so",
            example_facts.gpu(example_facts.ddp(static_graph=True)),
            "nothing to change: static_graph is already True at train.py:48",
        ),
        Case(
            "No DDP", example_facts.gpu(), "refused: no model is wrapped in DistributedDataParallel"
        ),
    ],
)
def ddp_static_graph(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Tell DDP that each step uses the same parameters in the same order.

    It then keeps the order of exchanges of the first step.

    ## Precondition
    A model in DistributedDataParallel, whose graph is the same in each step.

    ## Safety
    Risky: if the graph does change, training stops with an error or, worse, continues with wrong
    gradients.
    """

    def propose(module: Parallel) -> Proposal:
        line_ref = name_line(module.location)
        if module.settings.get(_ARGUMENT) is True:
            return ddp_static_graph.no_change(
                f"{_ARGUMENT} is already True at {line_ref}", module.location
            )
        return ddp_static_graph.proposal(
            f"{_ARGUMENT} False → True at {line_ref}",
            SetArgument(DDP, _ARGUMENT, value=True, where=module.location),
            applicability=Applicability.RISKY,
            risk="wrong if the graph changes from step to step",
            location=module.location,
        )

    return propose_for_ddp(ddp_static_graph, facts, option, propose)
