"""Let DDP not look for unused parameters."""

from typing import Final

from gapless.catalogue.declare.fix import Case, Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_ddp
from gapless.catalogue.declare.targets import DDP
from gapless.catalogue.examples import example_facts
from gapless.model.edit import Applicability, Proposal, SetArgument
from gapless.model.facts import Facts, Parallel

_ARGUMENT: Final = "find_unused_parameters"


@fix(
    "ddp-no-unused",
    since="0.1",
    cases=lambda: [
        Case(
            "It looks for them in each step",
            example_facts.gpu(example_facts.ddp(find_unused_parameters=True)),
            "risky: find_unused_parameters True → False at train.py:48",
            edits=(SetArgument(DDP, _ARGUMENT, value=False, where=example_facts.MODEL_LINE),),
        ),
        Case(
            "Already so",
            example_facts.gpu(example_facts.ddp(find_unused_parameters=False)),
            "nothing to change: find_unused_parameters is already False at train.py:48",
        ),
        Case(
            "No DDP", example_facts.gpu(), "refused: no model is wrapped in DistributedDataParallel"
        ),
    ],
)
def ddp_no_unused(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let DDP not look for unused parameters in each step.

    To find them it walks the entire graph before each backward pass.

    ## Precondition
    A model in DistributedDataParallel that was told to look, though all parameters are used.

    ## Safety
    Risky: if a parameter gets no gradient in some step, training stops with an error, or hangs.
    """

    def propose(module: Parallel) -> Proposal:
        line_ref = name_line(module.location)
        if module.settings.get(_ARGUMENT) is False:
            return ddp_no_unused.no_change(
                f"{_ARGUMENT} is already False at {line_ref}", module.location
            )
        return ddp_no_unused.proposal(
            f"{_ARGUMENT} True → False at {line_ref}",
            SetArgument(DDP, _ARGUMENT, value=False, where=module.location),
            applicability=Applicability.RISKY,
            risk="training stops or hangs if a parameter is not used in a step",
            location=module.location,
        )

    return propose_for_ddp(ddp_no_unused, facts, option, propose)
