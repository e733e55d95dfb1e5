"""One process that drives several GPUs: DataParallel copies the model to each in each pass."""

from typing import Final, cast

from msgspec.structs import astuple

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.ranks import collectives, transports
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import Parallel
from gapless.model.finding import Detection, Measure

_CALLS: Final = ("Broadcast", "Scatter", "Gather", "ReduceAddCoalesced")  # the last: backward
_FORWARD: Final = "DataParallel.forward"
_BACKWARD_CALLS: Final = "autograd::engine::evaluate_function: *"
_RETURNS: Final = tuple(f"{_BACKWARD_CALLS[:-1]}{name}Backward" for name in ("Broadcast", "Gather"))
# What a process takes to call the forward pass, of what it takes to call the backward pass: 0.5 to
# 0.8 for small layers, convolutions, encoders on one processor.
_FORWARD_OF_BACKWARD: Final = Estimate(0.5, 0.8, 1.5)
_OPTIMIZER: Final = "busy.optimizer"
_MIN_STEP_SHARE: Final = 0.02  # of the step


@rule(
    "G610",
    "one-process-for-gpus",
    figures="""
    # nn.DataParallel(model) on two GPUs
    > One process drives 2 GPUs: in each pass it copies the model and a part of the batch to each,
      starts a thread for each, and gathers what comes back: that takes 19.2 ms of each 40.0 ms
      step.
    gpu(parallel_model("data_parallel", devices=("cuda:0", "cuda:1")))
    busy.math 14, idle.host.python 26
    operator(_FORWARD, calls=1, host_ms=20), operator("Broadcast", calls=1, host_ms=6)
    operator("Gather", calls=1, host_ms=2)
    operator(_BACKWARD_CALLS[:-1] + "BroadcastBackward", calls=1, host_ms=4)
    operator(_BACKWARD_CALLS[:-1] + "AddmmBackward0", calls=12, host_ms=12)
    # On one GPU it copies nothing
    gpu(parallel_model("data_parallel", devices=("cuda:0",)))
    busy.math 24, idle.host.python 16
    """,
)
def one_process_for_gpus(evidence: Evidence, parallel: Parallel) -> Detection | None:
    """Recognise that DataParallel drives several GPUs from one process.

    ## Why it costs time
    In each pass the model is copied from the first GPU to the others, and gradients are summed on
    it. One interpreter launches the kernels of all GPUs, by threads that are begun anew in each
    pass, of which one runs at a time. ``DistributedDataParallel`` has a process for each GPU,
    copies no model, and sums gradients while the backward pass runs.

    ## How it is measured
    By what windows show of the training thread in DataParallel's forward pass, and of the copies of
    its backward pass. What a process takes to launch the forward pass of its own GPU stays: 0.8
    times what a thread of the backward pass takes, by half to about twice. The step remains as long
    as its GPU works, and NCCL exchanges gradients beside that: in as long as copies and sums took
    at most, of which the backward pass hides nothing to a half, and in so many buckets.
    """
    devices = parallel.settings.get("devices")
    count = len(cast("tuple[str, ...]", devices or ()))
    if parallel.kind != "data_parallel" or count < 2:  # noqa: PLR2004 - nothing is copied
        return None
    copies, step_ns = _shown_share(evidence, *_CALLS), evidence.step_ns
    if not step_ns or copies < _MIN_STEP_SHARE:
        return None
    gone_share = _estimate_host(evidence, count)
    return one_process_for_gpus.detection(
        f"One process drives {count} GPUs: in each pass it copies the model and a part of the "
        "batch to each, starts a thread for each, and gathers what comes back: that takes "
        f"{windows.format_step_part(evidence, gone_share.mid * step_ns)}.",
        collectives.change_joint_step(_bound_by_device(evidence, gone_share, count)),
        location=parallel.location,
        measures=(
            Measure("copies and gathering, a step", copies * step_ns, "ns"),
            Measure("beside launching for one GPU, a step", gone_share.mid * step_ns, "ns"),
        ),
        no_remedy="DistributedDataParallel, started by torchrun, has a process for each GPU",
    )


def _shown_share(evidence: Evidence, *patterns: str) -> float:
    """Return the share of a step in windows that the host spends in some calls.

    An account has a row for each GPU in each step, all calls are of one process. Threads that call
    at the same time may have more than a step.
    """
    account = evidence.study.account
    host_ns = windows.sum_calls(evidence, *patterns).host_ns * windows.count_steps(evidence)
    rows = len({row.row.device for row in account.rows}) or 1
    return rows * host_ns / max(1, account.wall_ns)


def _estimate_host(evidence: Evidence, count: int) -> Estimate:
    """Return the share of the step that the host takes less with one GPU for each process."""
    forward = max(_shown_share(evidence, _FORWARD), _shown_share(evidence, *_CALLS[:-1]))
    returned = _shown_share(evidence, *_RETURNS)
    passes = _shown_share(evidence, _BACKWARD_CALLS)
    thread = max(0.0, passes - returned) / count
    kept = (min(forward, factor * thread) for factor in astuple(_FORWARD_OF_BACKWARD))
    returned = max(returned, _shown_share(evidence, _CALLS[-1]))
    return Estimate(*sorted(min(1.0, forward + returned - share) for share in kept))


def _bound_by_device(evidence: Evidence, gone_share: Estimate, count: int) -> Estimate:
    """Return the share of the step that goes: what remains is as long as its GPU works.

    An all-reduce moves what a broadcast and a sum move, by links in both directions: between two
    GPUs in half of the time.
    """
    step_ns = evidence.step_ns or 1
    n_calls = collectives.count_usual_buckets(collectives.gradient_bytes(evidence))
    call = transports.nccl_transport(evidence.facts).call_ns
    moved_ns = windows.sum_calls(evidence, _CALLS[0], _CALLS[-1]).device_ns
    moved = (moved_ns, moved_ns * (count - 1) / count, moved_ns * (count - 1) / count)
    # Each GPU has an optimizer of its own, where the first one had that of all.
    works_ns = evidence.per_step("busy.", "copy.h2d") + (count - 1) * evidence.per_step(_OPTIMIZER)
    bounds: list[float] = []
    for share, call_ns, parts_ns, exposed in zip(
        astuple(gone_share),
        reversed(astuple(call)),
        moved,
        reversed(astuple(collectives.UNHIDDEN)),
        strict=True,
    ):
        called_ns = n_calls * call_ns
        on_device = 1 - (works_ns + exposed * (called_ns + parts_ns)) / step_ns
        bounds.append(max(0.0, min(share - called_ns / step_ns, on_device)))
    return Estimate(*bounds)
