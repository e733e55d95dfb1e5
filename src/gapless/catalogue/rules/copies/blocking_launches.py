"""CUDA_LAUNCH_BLOCKING, left set."""

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.effects.debug_switches import LAUNCH_CALLS, changes_without_waits
from gapless.catalogue.fixes.host.debug_off import debug_off
from gapless.catalogue.queries import windows
from gapless.model.evidence import Evidence
from gapless.model.facts import Precision
from gapless.model.finding import Detection, Measure


@rule(
    "G210",
    "blocking-launches",
    figures="""
    # CUDA_LAUNCH_BLOCKING=1
    > CUDA_LAUNCH_BLOCKING is set: each of 400 launches a step waits for its kernel, for 20.0 ms
      together.
    gpu(precision(launch_blocking=True))
    busy.tc_math 18, idle.host.dispatch 4
    operator("cudaLaunchKernel", calls=400, host_ms=20)
    # Not set
    gpu()
    busy.tc_math 18
    operator("cudaLaunchKernel", calls=400, host_ms=2)
    """,
)
def blocking_launches(evidence: Evidence, precision: Precision) -> Detection | None:
    """Recognise that each launch waits until its kernel has ended.

    ## Why it costs time
    Host and device work in turns, never at once. It is meant for finding the line of a failing
    kernel.

    ## How it is measured
    The setting is a fact of the run. The gain is that of launches of usual length.
    """
    if not precision.settings.get("launch_blocking") or not evidence.on_device:
        return None
    launches = windows.sum_calls(evidence, *LAUNCH_CALLS)
    return blocking_launches.detection(
        "CUDA_LAUNCH_BLOCKING is set: each of "
        f"{windows.format_count(launches.count)} launches a step waits for its kernel, for "
        f"{windows.ms(launches.host_ns)} together.",
        *changes_without_waits(evidence),
        measures=(Measure("in launches, a step", launches.host_ns, "ns"),),
        helps=(debug_off.request(),),
    )
