"""Exchange what lies on GPUs by NCCL."""

from typing import Final

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import is_model_on_cuda, propose_for_ddp
from gapless.model.edit import Applicability, Proposal, SetArgument
from gapless.model.facts import Facts, Parallel

_START: Final = "torch.distributed.init_process_group"
_BACKENDS: Final = "cpu:gloo,cuda:nccl"


@fix(
    "nccl-backend",
    cases="""
    # init_process_group("gloo"), and a model on GPUs
    > risky: backend gloo → cpu:gloo,cuda:nccl
    gpu(ddp(backend="gloo")), SetArgument(_START, "backend", _BACKENDS)
    # By NCCL already
    > nothing to change: gradients are exchanged by nccl
    gpu(ddp(backend="nccl"))
    # A backend that was not recorded
    > refused: it is not known what exchanges gradients
    gpu(ddp())
    # A model on the processor
    > refused: NCCL exchanges between GPUs alone
    cpu(ddp(backend="gloo"))
    # A model on the processor, of a run that used a GPU all the same
    > refused: NCCL exchanges between GPUs alone
    gpu(ddp(backend="gloo"), model(device="cpu"))
    # A model that was not seen to lie anywhere
    > risky: backend gloo → cpu:gloo,cuda:nccl
    gpu(ddp(backend="gloo"), model(device=None)), SetArgument(_START, "backend", _BACKENDS)
    # No DDP
    > refused: no model is wrapped in DistributedDataParallel
    gpu()
    """,
)
def nccl_backend(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Exchange what lies on GPUs by NCCL, from GPU to GPU.

    What lies in the host's memory goes on through gloo.

    ## Precondition
    A model in DistributedDataParallel on GPUs, one for each rank, in a group that
    ``init_process_group`` makes, or that has its backend.

    ## Safety
    Risky: gradients are summed in another order, and NCCL fails where two ranks share a GPU, or a
    collective runs on one rank alone.
    """

    def propose(module: Parallel) -> Proposal:
        backend = module.settings.get("backend")
        if backend is None:
            return nccl_backend.refusal("it is not known what exchanges gradients", module.location)
        if backend != "gloo":
            return nccl_backend.no_change(f"gradients are exchanged by {backend}", module.location)
        if facts.machine.device is None or not _may_use_cuda(facts):
            return nccl_backend.refusal("NCCL exchanges between GPUs alone", module.location)
        return nccl_backend.proposal(
            f"backend {backend} → {_BACKENDS}",
            SetArgument(_START, "backend", _BACKENDS),
            applicability=Applicability.RISKY,
            risk="sums in another order; NCCL fails where ranks share a GPU",
            location=module.location,
        )

    return propose_for_ddp(nccl_backend, facts, option, propose)


def _may_use_cuda(facts: Facts) -> bool:
    """Return whether a model lies on a GPU, or it is not known of each where it lies."""
    models = facts.models
    return not models or any(is_model_on_cuda(model) or not model.device for model in models)
