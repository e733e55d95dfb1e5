"""Larger or smaller buckets of gradients."""

from typing import Final

from gapless.catalogue import examples
from gapless.catalogue.choosing import each_ddp, named
from gapless.catalogue.declare import Case, Option, fix
from gapless.catalogue.targets import DDP
from gapless.model.edit import Applicability, Proposal, SetArgument
from gapless.model.facts import Facts, Parallel

_USUAL: Final = 100  # MiB


@fix(
    "ddp-buckets",
    since="0.1",
    value="MIB",
    cases=[
        Case(
            "torch's 25 MiB",
            examples.gpu(examples.ddp()),
            "equivalent: bucket_cap_mb 25 → 100 at train.py:48",
            edits=(SetArgument(DDP, "bucket_cap_mb", 100, examples.MODEL_LINE),),
        ),
        Case(
            "It is so already",
            examples.gpu(examples.ddp(bucket_cap_mb=100.0)),
            "nothing to change: bucket_cap_mb is already 100 at train.py:48",
        ),
        Case("No DDP", examples.gpu(), "refused: no model is wrapped in DistributedDataParallel"),
    ],
)
def ddp_buckets(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Exchange gradients in buckets of N MiB (100, if not said; torch's default is 25).

    Larger ones waste less on the start of each exchange; smaller ones begin earlier.

    ## Precondition
    A model in DistributedDataParallel.

    ## Safety
    Equivalent: what lies in which bucket decides the order of sums. Buckets need memory.
    """
    wanted = option.number(_USUAL)

    def make(one: Parallel) -> Proposal:
        have, place = one.settings.get("bucket_cap_mb"), named(one.where)
        if have == wanted:
            why = f"bucket_cap_mb is already {wanted} at {place}"
            return ddp_buckets.nothing(why, one.where)
        before = f"{have:g}" if isinstance(have, float | int) else "?"
        return ddp_buckets.proposal(
            f"bucket_cap_mb {before} → {wanted} at {place}",
            SetArgument(DDP, "bucket_cap_mb", wanted, one.where),
            applicability=Applicability.EQUIVALENT,
            risk="gradients are summed in another order",
            where=one.where,
        )

    return each_ddp(ddp_buckets, facts, option, make)
