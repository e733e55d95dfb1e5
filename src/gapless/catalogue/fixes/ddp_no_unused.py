"""DDP that does not look for unused parameters."""

from typing import Final

from gapless.catalogue import examples
from gapless.catalogue.choosing import propose_for_ddp, name_line
from gapless.catalogue.declare import Case, Option, fix
from gapless.catalogue.targets import DDP
from gapless.model.edit import Applicability, Proposal, SetArgument
from gapless.model.facts import Facts, Parallel

_ARGUMENT: Final = "find_unused_parameters"


@fix(
    "ddp-no-unused",
    since="0.1",
    cases=[
        Case(
            "It looks in each step",
            examples.gpu(examples.ddp(find_unused_parameters=True)),
            "risky: find_unused_parameters True → False at train.py:48",
            edits=(SetArgument(DDP, _ARGUMENT, value=False, where=examples.MODEL_LINE),),
        ),
        Case(
            "It is so already",
            examples.gpu(examples.ddp(find_unused_parameters=False)),
            "nothing to change: find_unused_parameters is already False at train.py:48",
        ),
        Case("No DDP", examples.gpu(), "refused: no model is wrapped in DistributedDataParallel"),
    ],
)
def ddp_no_unused(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let DDP not look for unused parameters in each step.

    To look for them it walks the whole graph before each backward pass.

    ## Precondition
    A model in DistributedDataParallel that was told to look, though all parameters are used.

    ## Safety
    Risky: where a parameter gets no gradient in some step, training stops with an error, or
    waits for ever.
    """

    def propose(module: Parallel) -> Proposal:
        line_ref = name_line(module.location)
        if module.settings.get(_ARGUMENT) is False:
            return ddp_no_unused.no_change(f"{_ARGUMENT} is already False at {line_ref}", module.location)
        return ddp_no_unused.proposal(
            f"{_ARGUMENT} True → False at {line_ref}",
            SetArgument(DDP, _ARGUMENT, value=False, where=module.location),
            applicability=Applicability.RISKY,
            risk="training stops or hangs where a parameter is not used in a step",
            location=module.location,
        )

    return propose_for_ddp(ddp_no_unused, facts, option, propose)
