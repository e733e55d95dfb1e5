"""Gradients that are views of DDP's buckets."""

from typing import Final

from gapless.catalogue import examples
from gapless.catalogue.choosing import each_ddp, named
from gapless.catalogue.declare import Case, Option, fix
from gapless.catalogue.targets import DDP
from gapless.model.edit import Applicability, Proposal, SetArgument
from gapless.model.facts import Facts, Parallel

_NAME: Final = "gradient_as_bucket_view"


@fix(
    "ddp-bucket-view",
    since="0.1",
    cases=[
        Case(
            "torch's default",
            examples.gpu(examples.ddp(gradient_as_bucket_view=False)),
            "risky: gradient_as_bucket_view False → True at train.py:48",
            edits=(SetArgument(DDP, _NAME, value=True, where=examples.MODEL_LINE),),
        ),
        Case(
            "It is so already",
            examples.gpu(examples.ddp(gradient_as_bucket_view=True)),
            "nothing to change: gradient_as_bucket_view is already True at train.py:48",
        ),
        Case("No DDP", examples.gpu(), "refused: no model is wrapped in DistributedDataParallel"),
    ],
)
def ddp_bucket_view(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let gradients be views of the buckets that are exchanged, so that none is copied.

    It saves memory as large as all gradients, too.

    ## Precondition
    A model in DistributedDataParallel.

    ## Safety
    Risky: the same values, but code that calls ``detach_()`` on gradients fails.
    """

    def make(one: Parallel) -> Proposal:
        place = named(one.where)
        if one.settings.get(_NAME) is True:
            return ddp_bucket_view.nothing(f"{_NAME} is already True at {place}", one.where)
        return ddp_bucket_view.proposal(
            f"{_NAME} False → True at {place}",
            SetArgument(DDP, _NAME, value=True, where=one.where),
            applicability=Applicability.RISKY,
            risk="code that detaches gradients in place fails",
            where=one.where,
        )

    return each_ddp(ddp_bucket_view, facts, option, make)
