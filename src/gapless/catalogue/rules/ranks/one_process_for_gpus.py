"""One process that drives several GPUs: DataParallel copies the model to each in each pass."""

from typing import Final, cast

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import windows
from gapless.model.change import Omit
from gapless.model.evidence import Evidence
from gapless.model.facts import Parallel
from gapless.model.finding import Detection, Measure

_CALLS: Final = ("Broadcast", "Scatter", "Gather", "ReduceAddCoalesced")  # of DataParallel, by pass
_MIN_STEP_SHARE: Final = 0.02  # of the step


@rule(
    "G610",
    "one-process-for-gpus",
    figures="""
    # nn.DataParallel(model) on two GPUs
    > One process drives 2 GPUs: in each pass it copies the model and a part of the batch to each,
      and gathers what comes back: that takes 8.0 ms of each 40.0 ms step.
    gpu(parallel_model("data_parallel", devices=("cuda:0", "cuda:1")))
    busy.math 24, idle.host.python 16
    operator("Broadcast", calls=1, host_ms=6)
    operator("Gather", calls=1, host_ms=2)
    # On one GPU it copies nothing
    gpu(parallel_model("data_parallel", devices=("cuda:0",)))
    busy.math 24, idle.host.python 16
    """,
)
def one_process_for_gpus(evidence: Evidence, parallel: Parallel) -> Detection | None:
    """Recognise that DataParallel drives several GPUs from one process.

    ## Why it costs time
    In each pass the model is copied from the first GPU to the others, and gradients are summed on
    it. One interpreter launches the kernels of all GPUs, a thread for each, of which one runs at a
    time. ``DistributedDataParallel`` has a process for each GPU, copies no model, and sums
    gradients while the backward pass runs.

    ## How it is measured
    By the calls that copy and gather, as windows show them. What the turns of the threads cost is
    not in it, so that the gain may be larger than foretold.
    """
    devices = parallel.settings.get("devices")
    count = len(cast("tuple[str, ...]", devices or ()))
    if parallel.kind != "data_parallel" or count < 2:  # noqa: PLR2004 - nothing is copied
        return None
    copies, step_ns = windows.sum_calls(evidence, *_CALLS), evidence.step_ns
    if not step_ns or copies.host_ns < _MIN_STEP_SHARE * step_ns:
        return None
    return one_process_for_gpus.detection(
        f"One process drives {count} GPUs: in each pass it copies the model and a part of the "
        "batch to each, and gathers what comes back: that takes "
        f"{windows.format_step_part(evidence, copies.host_ns)}.",
        Omit(_CALLS),
        location=parallel.location,
        measures=(Measure("copies and gathering, a step", copies.host_ns, "ns"),),
        no_remedy="DistributedDataParallel, started by torchrun, has a process for each GPU",
    )
