"""Use larger or smaller buckets of gradients."""

from typing import Final

from gapless.catalogue.declare.fix import Case, Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_ddp
from gapless.catalogue.declare.targets import DDP
from gapless.catalogue.examples import example_facts
from gapless.model.edit import Applicability, Proposal, SetArgument
from gapless.model.facts import Facts, Parallel

_DEFAULT_MIB: Final = 100  # MiB


@fix(
    "ddp-buckets",
    since="0.1",
    value="MIB",
    cases=lambda: [
        Case(
            "torch's 25 MiB",
            example_facts.gpu(example_facts.ddp()),
            "equivalent: bucket_cap_mb 25 → 100 at train.py:48",
            edits=(SetArgument(DDP, "bucket_cap_mb", 100, example_facts.MODEL_LINE),),
        ),
        Case(
            "Already so",
            example_facts.gpu(example_facts.ddp(bucket_cap_mb=100.0)),
            "nothing to change: bucket_cap_mb is already 100 at train.py:48",
        ),
        Case(
            "No DDP", example_facts.gpu(), "refused: no model is wrapped in DistributedDataParallel"
        ),
    ],
)
def ddp_buckets(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Exchange gradients in buckets of N MiB (default 100; torch's default is 25).

    Larger buckets spend less on starting exchanges; smaller ones begin earlier.

    ## Precondition
    A model in DistributedDataParallel.

    ## Safety
    Equivalent: the assignment to buckets decides the order of sums. Buckets need memory.
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
