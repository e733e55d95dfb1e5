"""Gradients of GPUs that are exchanged by gloo: through the memory of the host."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.ranks import collectives
from gapless.model.change import ZERO_FACTOR, HostChange, Scale
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import Parallel, World
from gapless.model.finding import Detection, Measure

_MIN_STEP_SHARE: Final = 0.02  # of the step
_HELD_UP: Final = (  # while its thread waits in an exchange; Python holds it up by itself
    "idle.sync",
    "idle.host.optimizer",
    "idle.host.dispatch",
    "idle.host.engine",
    "idle.host.unframed",
    "idle.launch",
    "idle.unknown",
)
_BACK: Final = "copy.d2h"
_IN: Final = "copy.h2d."


@rule(
    "G609",
    "slow-backend",
    figures="""
    # init_process_group("gloo"), and a model on GPUs
    > Gradients of GPUs are exchanged over 2 ranks by gloo, through the memory of the host, where
      NCCL copies from GPU to GPU: that takes 16.0 ms of each 40.0 ms step.
    gpu(world(ranks=2), ddp(backend="gloo"))
    rank busy.math 24, comm.exposed 12, idle.comm.host 4
    rank busy.math 24, comm.exposed 12, idle.comm.host 4
    # By NCCL
    gpu(world(ranks=2), ddp(backend="nccl"))
    rank busy.math 24, comm.exposed 12, idle.comm.host 4
    rank busy.math 24, comm.exposed 12, idle.comm.host 4
    # gloo, and a model on the processor
    cpu(world(ranks=2), ddp(backend="gloo"))
    rank busy.math 24, comm.exposed 12, idle.comm.host 4
    rank busy.math 24, comm.exposed 12, idle.comm.host 4
    """,
)
def slow_backend(evidence: Evidence, parallel: Parallel, world: World) -> Detection | None:
    """Recognise that gradients which lie on GPUs are exchanged by gloo.

    ## Why it costs time
    gloo copies gradients to the host, sums them on its processors, and copies them back. NCCL
    exchanges them from GPU to GPU, and they need not leave these.

    ## How it is measured
    By the backend of the group that DistributedDataParallel exchanges gradients in, and by the
    account: transfers that no computing hides, and the host's time to carry them out. What NCCL
    takes for them here is not known: all of that is the most that it can give, with the copies to
    the host, as many back, and what the device waits for its host, which does not wait for
    exchanges then; but not where it runs Python.
    """
    is_by_gloo = parallel.settings.get("backend") == "gloo" and evidence.on_device
    if parallel.kind != "ddp" or world.ranks < 2 or not is_by_gloo:  # noqa: PLR2004
        return None
    lost_ns, step_ns = collectives.exposed_ns(evidence), evidence.step_ns
    if not step_ns or lost_ns < _MIN_STEP_SHARE * step_ns:
        return None
    return slow_backend.detection(
        f"Gradients of GPUs are exchanged over {world.ranks} ranks by gloo, through the memory of "
        "the host, where NCCL copies from GPU to GPU: that takes "
        f"{windows.format_step_part(evidence, lost_ns)}.",
        Scale(ZERO_FACTOR, leaves=(collectives.TRANSFER_LEAF, _BACK)),
        Scale(_estimate_copies_in(evidence), leaves=(_IN,)),
        HostChange((collectives.ISSUE_LEAVES, *_HELD_UP), ZERO_FACTOR),
        location=parallel.location,
        measures=(Measure("exposed, a step", lost_ns, "ns"),),
        no_remedy='init_process_group("nccl") exchanges gradients from GPU to GPU',
        to_try=True,
    )


def _estimate_copies_in(evidence: Evidence) -> Estimate:
    """Return what remains of copies to the device: all that are more than those from it."""
    in_ns, back_ns = evidence.per_step(_IN), evidence.per_step(_BACK)
    share = max(0.0, 1 - back_ns / in_ns) if in_ns else 0.0
    return Estimate(share, share, share)
