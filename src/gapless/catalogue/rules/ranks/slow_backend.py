"""Gradients of GPUs that are exchanged by gloo: through the memory of the host."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.ranks.nccl_backend import nccl_backend
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.ranks import collectives, transports
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import Parallel, World
from gapless.model.finding import Detection, Measure
from gapless.model.reducer import REDUCE_CALL

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
    account: transfers that no computing hides, the host's time to carry them out, the copies to
    the host, and as many back. What NCCL takes instead is α + bytes ÷ bandwidth of the links
    between such GPUs (``queries/ranks/transports.py``), of which the backward pass hides nothing to
    a half. What the device waits for its host goes as well, likely: that does not wait for
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
        collectives.change_joint_step(_estimate_gain(evidence, lost_ns)),
        location=parallel.location,
        measures=(Measure("exposed, a step", lost_ns, "ns"),),
        helps=(nccl_backend.request(),),
        to_try=not collectives.gradient_bytes(evidence),
    )


def _estimate_gain(evidence: Evidence, lost_ns: float) -> Estimate:
    """Return the share of the step that goes, less what NCCL takes."""
    world, back_ns = evidence.facts.world, evidence.per_step(_BACK)
    sure_ns = lost_ns + back_ns + min(back_ns, evidence.per_step(_IN))
    likely_ns = sure_ns + evidence.per_step(*_HELD_UP)
    nccl_ns = _exchange_ns(evidence, lost_ns, world.ranks)
    exposed_share = collectives.UNHIDDEN
    times_ns = (
        max(0.0, sure_ns - exposed_share.high * nccl_ns.high),
        max(0.0, likely_ns - exposed_share.mid * nccl_ns.mid),
        max(0.0, likely_ns - exposed_share.low * nccl_ns.low),
    )
    return Estimate(*(time_ns / (evidence.step_ns or 1) for time_ns in times_ns))


def _exchange_ns(evidence: Evidence, lost_ns: float, n_ranks: int) -> Estimate:
    """Return what NCCL takes; of unknown sizes, of as many bytes as gloo moves meanwhile."""
    transport = transports.nccl_transport(evidence.facts)
    n_calls = windows.sum_calls(evidence, REDUCE_CALL).count
    n_bytes = collectives.gradient_bytes(evidence)
    called_ns = transport.exchange_ns(n_calls, n_bytes, n_ranks)
    if n_bytes:
        return called_ns
    gloo, nccl = transports.GLOO.bus_bytes_per_s, transport.bus_bytes_per_s
    return Estimate(
        called_ns.low + lost_ns * gloo.low / nccl.high,
        called_ns.mid + lost_ns * gloo.mid / nccl.mid,
        called_ns.high + lost_ns * gloo.high / nccl.low,
    )
