"""What a training gains by threads that compute together, and a worker with one thread lacks."""

from typing import Final

from gapless.model.estimate import Estimate
from gapless.replay.loader.costs import BatchRows, Draw, LoaderInputs

_LARGE_BYTES: Final = 1 << 20  # bytes from which several threads pass over a tensor more quickly
_SINGLE_THREADED: Final = frozenset({"read", "decode", "tokenise"})  # stages that one thread does
_MAX_MEMORY_GAIN: Final = 8.0  # the most that threads give to what moves memory
_SMALL_GAIN: Final = Estimate(1.0, 1.05, 1.3)  # what threads give to small tensors
PARALLEL: Final = Estimate(0.0, 0.4, 0.9)  # of computing, what several threads share


def parallel_factor(inputs: LoaderInputs, draw: Draw) -> float:
    """Return by what factor a fetch is longer with one thread than with all of the training's.

    A worker computes with one thread, the training process with several; torch does not split small
    tensors, and other libraries use one thread in any case.
    """
    threads = inputs.machine.intra_op_threads or inputs.machine.cpus or 1
    max_gain = min(float(threads), _memory_gain(inputs, threads))
    if max_gain <= 1:
        return 1.0
    sample = inputs.bytes / max(1.0, inputs.samples or 1.0)
    factor = 1.0
    for name, (share, _) in (inputs.stages or {"other": (1.0, 0.0)}).items():
        size = inputs.bytes if name == "collate" else sample
        gain = Estimate(1.0, (1 + max_gain) / 2, max_gain) if size >= _LARGE_BYTES else _SMALL_GAIN
        if name not in _SINGLE_THREADED:
            factor += share * (min(max_gain, draw.value_of("fetch-threads", gain)) - 1)
    return factor


def _memory_gain(inputs: LoaderInputs, threads: int) -> float:
    """Return how much faster several threads pass over memory than one, as measured here."""
    series = dict(inputs.constants.series("cpu.memory.triad")) if inputs.constants else {}
    single, multiple = (
        series.get(1),
        [rate for count, rate in series.items() if 1 < count <= threads],
    )
    return max(1.0, max(multiple) / single) if single and multiple else _MAX_MEMORY_GAIN


def parallel_share(inputs: LoaderInputs, draw: Draw) -> float:
    """Return the part of computing that several threads share.

    At most what large products gain by them, how long they ran, and what long operators take.
    """
    series = dict(inputs.constants.series("cpu.gemm.fp32")) if inputs.constants else {}
    single, multiple = series.get(1), series.get(inputs.threads)
    max_share = PARALLEL.high
    if single and multiple and inputs.threads > 1:
        max_share = max(0.0, 1 - single / multiple) * inputs.threads / (inputs.threads - 1)
    shared, threads = min(PARALLEL.high, max_share), inputs.threads
    for share in (helper_share(inputs), inputs.shareable):  # computing runs, in long operators
        if share is not None:
            shared = min(shared, share * threads / (1 - share + share * threads))
    return draw.value_of("threads", Estimate(0.0, min(PARALLEL.mid, shared / 2), shared))


def helper_share(inputs: LoaderInputs) -> float | None:
    """Return the share of the training thread's time in which its other threads were ready.

    They ran in what the process used besides that thread, which was kept waiting itself for some of
    its time; and beside workers they waited for a processor as often as those did. ``None``: it is
    not known what the process used.
    """
    rows, used = inputs.rows, inputs.used_cpus
    host, step_ns = float(rows.host.mean()), rows.step()
    if used is None or inputs.threads == 1 or host <= 0:
        return None
    if inputs.loader.num_workers:
        own_ns = max(0.0, host - (inputs.delay_share or 0.0) * step_ns)
    else:
        own_ns = host + _own_run_ns(rows)
    run_ns = max(0.0, used * step_ns - own_ns) / (inputs.threads - 1)
    return min(1.0, run_ns * _queue_stretch(inputs) / host)


def _queue_stretch(inputs: LoaderInputs) -> float:
    """Return how far threads are stretched that share processors with the workers, on average."""
    rows, n_workers = inputs.rows, inputs.loader.num_workers
    is_known = rows.on > 0
    if not n_workers or not is_known.any():
        return 1.0
    run_ns, queue_ns = float(rows.on[is_known].mean()), float(rows.queue[is_known].mean())
    busy_share = min(1.0, (run_ns + queue_ns) / n_workers / max(1.0, rows.step()))
    return 1 + busy_share * queue_ns / run_ns


def _own_run_ns(rows: BatchRows) -> float:
    """Return how long the training thread ran in a mean wait for a batch of its own."""
    is_known, wait = rows.on >= 0, float(rows.wait.mean())
    blocked_ns, wait_ns = int(rows.off[is_known].sum()), int(rows.wait[is_known].sum())
    return wait * max(0.0, 1 - blocked_ns / wait_ns) if wait_ns else wait
