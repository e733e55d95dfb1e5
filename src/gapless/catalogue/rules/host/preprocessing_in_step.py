"""Tensors that the training thread computes on the host while the device waits."""

from collections.abc import Sequence
from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import windows
from gapless.model.change import HostChange
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure
from gapless.model.tables import Operator

_MIN_CALL_NS: Final = 150_000  # of a call, without nested ones: longer than any dispatch
_DISPATCH_NS: Final = 20_000
_WAITING_OPERATORS: Final = (
    "aten::_local_scalar_dense",
    "aten::item",
    "aten::to",
    "aten::_to_copy",
)
_MIN_STEP_SHARE: Final = 0.01  # of the step
_FETCHES: Final = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.*"


@rule(
    "G203",
    "preprocessing-in-step",
    figures="""
    fetch = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    # Images are normalised in the training loop, before the copy
    > The training thread computes on tensors of the host, mainly in aten::sub 6.0 ms, aten::div 6.0
      ms; that holds up 10.0 ms of each 31.0 ms step.
    gpu()
    busy.tc_math 20, idle.host.dispatch 11
    operator("aten::sub", calls=1, host_ms=6, device_ms=0)
    operator("aten::div", calls=1, host_ms=6, device_ms=0)
    operator("aten::convolution", calls=50, host_ms=3, device_ms=18)
    kernel("nvjet_tst_128x256_64x4", calls=50, ms=20, leaf="busy.tc_math")
    # A loader without workers puts samples together in the training process
    gpu()
    busy.tc_math 20, idle.host.dispatch 11
    replace(operator(fetch, calls=1, host_ms=12), host_self_ns=0)
    operator("aten::stack", calls=1, host_ms=10, device_ms=0)
    operator("aten::convolution", calls=50, host_ms=3, device_ms=18)
    # Such a loader picks samples in thousands of short calls, and the loop normalises as well
    > The training thread computes on tensors of the host, mainly in aten::sub 6.0 ms, aten::div 6.0
      ms; that holds up 5.7 ms of each 44.0 ms step.
    gpu()
    busy.tc_math 20, idle.host.dispatch 11, idle.data.main 13
    replace(operator(fetch, calls=1, host_ms=13), host_self_ns=0)
    operator("aten::select", calls=2600, host_ms=13, device_ms=0)
    operator("aten::sub", calls=1, host_ms=6, device_ms=0)
    operator("aten::div", calls=1, host_ms=6, device_ms=0)
    operator("aten::convolution", calls=50, host_ms=3, device_ms=18)
    # Such a loader stacks samples, and a model of many kernels also calls what launches nothing
    gpu()
    busy.tc_math 20, idle.host.dispatch 4, idle.data.main 10
    replace(operator(fetch, calls=1, host_ms=10), host_self_ns=0)
    operator("aten::stack", calls=1, host_ms=10, device_ms=0)
    operator("aten::view", calls=1000, host_ms=3, device_ms=0)
    kernel("nvjet_tst_128x256_64x4", calls=400, ms=20, leaf="busy.tc_math")
    # Threads of DataParallel call operators, and the profiler ties no launch to them
    gpu(parallel_model("data_parallel"))
    busy.tc_math 20, idle.host.dispatch 11
    operator("aten::addmm", calls=6, host_ms=3, device_ms=0)
    # In the loader's workers
    gpu(worker_loader())
    busy.tc_math 20, idle.host.dispatch 0.3
    operator("aten::convolution", calls=50, host_ms=3, device_ms=18)
    kernel("nvjet_tst_128x256_64x4", calls=50, ms=20, leaf="busy.tc_math")
    """,
)
def preprocessing_in_step(evidence: Evidence) -> Detection | None:
    """Recognise that the training thread itself computes on host tensors in the step.

    ## Why it costs time
    Work on the host in the training loop (normalising, masking, one-hot encoding) is done by one
    process while the device waits. In a loader's workers it runs in parallel with the step; on the
    device it takes a hundredth of the time.

    ## How it is measured
    By operators that launch nothing and take far longer on the host than dispatch does; at most the
    time that the device waited for operators of the training thread. What a loader computes in the
    training process counts as waiting for data, not here: of its operators, as large a part is
    taken off as such long calls are of all that launch nothing; what may be the loader's all the
    same counts only as far as the device waits for longer than launching its kernels takes.
    """
    step_ns = evidence.step_ns
    if not step_ns or not evidence.on_device or _has_replicas(evidence):
        return None
    dispatch_ns = evidence.per_step("idle.host.dispatch")
    host_rows = [
        row for row in windows.select_operators(evidence, "aten::*") if not row.device_total_ns
    ]
    rows = [row for row in host_rows if _is_host_work(row)]
    n_steps = windows.count_steps(evidence)
    spent_ns = sum(row.host_self_ns - row.calls * _DISPATCH_NS for row in rows) / n_steps
    work_share = _sum_self(rows) / max(1, _sum_self(host_rows))
    fetched_ns = _fetched_ns(evidence) / n_steps
    sure_ns, spent_ns = spent_ns - fetched_ns, spent_ns - work_share * fetched_ns
    usual_ns = _DISPATCH_NS * windows.sum_kernels(evidence, "busy.").count
    lost_ns = min(spent_ns, max(dispatch_ns - usual_ns, min(sure_ns, dispatch_ns / 2)))
    if lost_ns < _MIN_STEP_SHARE * step_ns:
        return None
    rows.sort(key=lambda row: -row.host_self_ns)
    listing = ", ".join(f"{row.name} {windows.ms(row.host_self_ns / n_steps)}" for row in rows[:3])
    remaining = 1 - lost_ns / dispatch_ns
    return preprocessing_in_step.detection(
        f"The training thread computes on tensors of the host, mainly in {listing}; that holds up "
        f"{windows.format_step_part(evidence, lost_ns)}.",
        HostChange(
            ("idle.host.dispatch",), Estimate(remaining, remaining, min(1.0, remaining + 0.2))
        ),
        location=windows.find_calling_function(evidence, *(row.name for row in rows[:3])),
        measures=(
            Measure("computed on the host, a step", spent_ns, "ns"),
            Measure("the device waits for operators, a step", dispatch_ns, "ns"),
        ),
        no_remedy=(
            "do it in the data set or in collate_fn, where workers do it beside the step, or copy "
            "first and do it on the device"
        ),
    )


def _has_replicas(evidence: Evidence) -> bool:
    """Return whether threads of DataParallel call operators: launches are not tied to these."""
    return any(module.kind == "data_parallel" for module in evidence.facts.parallel)


def _fetched_ns(evidence: Evidence) -> int:
    """Return how long a loader's own operators take in the training process."""
    fetches = windows.select_operators(evidence, _FETCHES)
    return sum(row.host_total_ns - row.host_self_ns for row in fetches)


def _sum_self(rows: Sequence[Operator]) -> int:
    return sum(row.host_self_ns for row in rows)


def _is_host_work(row: Operator) -> bool:
    """Return whether an operator that launched nothing computed on the host: it took long."""
    return row.name not in _WAITING_OPERATORS and row.host_self_ns > row.calls * _MIN_CALL_NS
