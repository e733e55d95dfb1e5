"""DDP that may count on the same graph in each step."""

from typing import Final

from gapless.catalogue import examples
from gapless.catalogue.choosing import propose_for_ddp, name_line
from gapless.catalogue.declare import Case, Option, fix
from gapless.catalogue.targets import DDP
from gapless.model.edit import Applicability, Proposal, SetArgument
from gapless.model.facts import Facts, Parallel

_ARGUMENT: Final = "static_graph"


@fix(
    "ddp-static-graph",
    since="0.1",
    cases=[
        Case(
            "torch's default",
            examples.gpu(examples.ddp(static_graph=False)),
            "risky: static_graph False → True at train.py:48",
            edits=(SetArgument(DDP, _ARGUMENT, value=True, where=examples.MODEL_LINE),),
        ),
        Case(
            "It is so already",
            examples.gpu(examples.ddp(static_graph=True)),
            "nothing to change: static_graph is already True at train.py:48",
        ),
        Case("No DDP", examples.gpu(), "refused: no model is wrapped in DistributedDataParallel"),
    ],
)
def ddp_static_graph(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Tell DDP that each step uses the same parameters in the same order.

    It then keeps the order of exchanges that it saw in the first step.

    ## Precondition
    A model in DistributedDataParallel, whose graph is the same in each step.

    ## Safety
    Risky: where the graph does change, training stops with an error or, worse, with wrong
    gradients.
    """

    def propose(module: Parallel) -> Proposal:
        line_ref = name_line(module.location)
        if module.settings.get(_ARGUMENT) is True:
            return ddp_static_graph.no_change(f"{_ARGUMENT} is already True at {line_ref}", module.location)
        return ddp_static_graph.proposal(
            f"{_ARGUMENT} False → True at {line_ref}",
            SetArgument(DDP, _ARGUMENT, value=True, where=module.location),
            applicability=Applicability.RISKY,
            risk="wrong where the graph changes from step to step",
            location=module.location,
        )

    return propose_for_ddp(ddp_static_graph, facts, option, propose)
