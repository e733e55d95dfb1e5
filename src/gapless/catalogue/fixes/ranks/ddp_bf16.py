"""Exchange gradients in bfloat16."""

from gapless.catalogue.declare.fix import Changes, Option, fix
from gapless.catalogue.declare.selectors import propose_for_ddp
from gapless.catalogue.declare.targets import DDP
from gapless.catalogue.queries.ranks import collectives
from gapless.model.change import Scale
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts, Parallel


def _predict_changes(evidence: Evidence, _proposal: Proposal) -> Changes | None:
    """Return what half of the bytes take, for replay; ``None`` where windows show no sizes."""
    factor = collectives.factor_of_half(evidence)
    return None if factor is None else (Scale(factor, leaves=(collectives.TRANSFER_LEAF,)),)


@fix(
    "ddp-bf16",
    effect=_predict_changes,
    cases="""
    # Gradients in fp32
    > risky: gradients are exchanged in bfloat16
    gpu(ddp(backend="nccl")), Wrap(DDP, "bf16-hook", {})
    # gloo
    > refused: torch exchanges bfloat16 through NCCL alone, and this is gloo
    cpu(ddp(backend="gloo"))
    # No DDP
    > refused: no model is wrapped in DistributedDataParallel
    gpu()
    """,
)
def ddp_bf16(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Exchange gradients in bfloat16, by torch's ``bf16_compress_hook``.

    Half of the bytes cross the links; what a bucket takes whatever its size stays. Both are fitted
    to the collectives of the run. What the hook itself takes, for each bucket, is not in the price:
    where links are fast it costs more than it gives (two H200s: steps 0.65 times as fast).

    ## Precondition
    A model in DistributedDataParallel that exchanges gradients by NCCL, and has no hook of its own.

    ## Safety
    Risky: gradients are rounded to 8 bits of precision before they are summed.
    """

    def propose(module: Parallel) -> Proposal:
        backend = module.settings.get("backend")
        if backend not in (None, "nccl"):
            reason = f"torch exchanges bfloat16 through NCCL alone, and this is {backend}"
            return ddp_bf16.refusal(reason, module.location)
        return ddp_bf16.proposal(
            "gradients are exchanged in bfloat16",
            Wrap(DDP, "bf16-hook", {}),
            applicability=Applicability.RISKY,
            risk="gradients are rounded before they are summed",
            location=module.location,
        )

    return propose_for_ddp(ddp_bf16, facts, option, propose)
