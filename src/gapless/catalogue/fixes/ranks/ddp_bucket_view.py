"""Let gradients be views of DDP's buckets."""

from typing import Final

from gapless.catalogue.declare.fix import Case, Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_ddp
from gapless.catalogue.declare.targets import DDP
from gapless.catalogue.examples import example_facts
from gapless.model.edit import Applicability, Proposal, SetArgument
from gapless.model.facts import Facts, Parallel

_ARGUMENT: Final = "gradient_as_bucket_view"


@fix(
    "ddp-bucket-view",
    since="0.1",
    cases=lambda: [
        Case(
            "torch's default",
            example_facts.gpu(example_facts.ddp(gradient_as_bucket_view=False)),
            "risky: gradient_as_bucket_view False → True at train.py:48",
            edits=(SetArgument(DDP, _ARGUMENT, value=True, where=example_facts.MODEL_LINE),),
        ),
        Case(
            "Already so",
            example_facts.gpu(example_facts.ddp(gradient_as_bucket_view=True)),
            "nothing to change: gradient_as_bucket_view is already True at train.py:48",
        ),
        Case(
            "No DDP", example_facts.gpu(), "refused: no model is wrapped in DistributedDataParallel"
        ),
    ],
)
def ddp_bucket_view(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let gradients be views of the buckets that are exchanged, so that none is copied.

    It also saves as much memory as all gradients take.

    ## Precondition
    A model in DistributedDataParallel.

    ## Safety
    Risky: the same values, but code that calls ``detach_()`` on gradients fails.
    """

    def propose(module: Parallel) -> Proposal:
        line_ref = name_line(module.location)
        if module.settings.get(_ARGUMENT) is True:
            return ddp_bucket_view.no_change(
                f"{_ARGUMENT} is already True at {line_ref}", module.location
            )
        return ddp_bucket_view.proposal(
            f"{_ARGUMENT} False → True at {line_ref}",
            SetArgument(DDP, _ARGUMENT, value=True, where=module.location),
            applicability=Applicability.RISKY,
            risk="code that detaches gradients in place fails",
            location=module.location,
        )

    return propose_for_ddp(ddp_bucket_view, facts, option, propose)
