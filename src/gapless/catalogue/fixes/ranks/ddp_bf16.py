"""Exchange gradients in bfloat16."""

from typing import Final

from gapless.catalogue.declare.fix import Changes, Option, fix
from gapless.catalogue.declare.selectors import propose_for_ddp
from gapless.catalogue.declare.targets import DDP
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.ranks import collectives
from gapless.model.change import Delay, Scale
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts, Parallel
from gapless.model.reducer import REDUCE_CALL

# Of a bucket, on two H200s: 290 to 380 µs where the host decides, 17 µs where its device is behind
# (benchmarks/compressed_buckets.py).
_HOOK_NS: Final = 300_000


def _predict_changes(evidence: Evidence, _proposal: Proposal) -> Changes | None:
    """Return what half of the bytes take, and the hook; ``None`` where windows show no sizes."""
    factor = collectives.factor_of_half(evidence)
    if factor is None:
        return None
    n_buckets = windows.sum_calls(evidence, REDUCE_CALL).count
    return (
        Scale(factor, leaves=(collectives.TRANSFER_LEAF,)),
        Delay(round(n_buckets * _HOOK_NS)),
    )


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
    to the collectives of the run. The hook itself takes 0.3 ms of each bucket: where links are fast
    it costs more than it gives (two H200s: steps 0.65 times as fast).

    ## Precondition
    A model in DistributedDataParallel that exchanges gradients by NCCL, and has no hook of its own.

    ## Safety
    Risky: gradients are rounded to 8 bits of precision before they are summed.
    """

    def propose(module: Parallel) -> Proposal:
        backend = module.settings.get("backend")
        if backend is not None and "nccl" not in str(backend):  # "cpu:gloo,cuda:nccl", too
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
