"""Larger or smaller buckets of gradients."""

from typing import Final

from gapless.catalogue import examples
from gapless.catalogue.choosing import propose_for_ddp, name_line
from gapless.catalogue.declare import Case, Option, fix
from gapless.catalogue.targets import DDP
from gapless.model.edit import Applicability, Proposal, SetArgument
from gapless.model.facts import Facts, Parallel

_DEFAULT_MIB: Final = 100  # MiB


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
    new_size = option.parse_number(_DEFAULT_MIB)

    def propose(module: Parallel) -> Proposal:
        old_size, line_ref = module.settings.get("bucket_cap_mb"), name_line(module.location)
        if old_size == new_size:
            reason = f"bucket_cap_mb is already {new_size} at {line_ref}"
            return ddp_buckets.no_change(reason, module.location)
        old_text = f"{old_size:g}" if isinstance(old_size, float | int) else "?"
        return ddp_buckets.proposal(
            f"bucket_cap_mb {old_text} → {new_size} at {line_ref}",
            SetArgument(DDP, "bucket_cap_mb", new_size, module.location),
            applicability=Applicability.EQUIVALENT,
            risk="gradients are summed in another order",
            location=module.location,
        )

    return propose_for_ddp(ddp_buckets, facts, option, propose)
