"""What threads that compute together give a training, and what a worker with one thread lacks."""

from typing import Final

from gapless.model.interval import Interval
from gapless.replay.service import Draw, Inputs, Rows

_LARGE: Final = 1 << 20  # bytes from which several threads pass over a tensor more quickly
_ALONE: Final = frozenset({"read", "decode", "tokenise"})  # stages that one thread does
_MOST_GAIN: Final = 8.0  # what more threads give to what moves memory, at most
_HARDLY: Final = Interval(1.0, 1.05, 1.3)  # what threads give to small tensors
PARALLEL: Final = Interval(0.0, 0.4, 0.9)  # of computing, what several threads share


def parallel(inputs: Inputs, draw: Draw) -> float:
    """Give by what factor a fetch is longer with one thread than with all of the training's.

    A worker computes with one thread, the training process with several; of small tensors torch
    makes no parts that are worth the hand-over, and other libraries use one thread in any case.
    """
    threads = inputs.machine.intra_op_threads or inputs.machine.cpus or 1
    most = min(float(threads), _memory_gain(inputs, threads))
    if most <= 1:
        return 1.0
    sample = inputs.bytes / max(1.0, inputs.samples or 1.0)
    factor = 1.0
    for name, (share, _) in (inputs.stages or {"other": (1.0, 0.0)}).items():
        large = inputs.bytes if name == "collate" else sample
        gain = Interval(1.0, (1 + most) / 2, most) if large >= _LARGE else _HARDLY
        if name not in _ALONE:
            factor += share * (min(most, draw.of("fetch-threads", gain)) - 1)
    return factor


def _memory_gain(inputs: Inputs, threads: int) -> float:
    """Give how much faster several threads pass over memory than one, as measured here."""
    series = dict(inputs.constants.series("cpu.memory.triad")) if inputs.constants else {}
    one, more = series.get(1), [rate for many, rate in series.items() if 1 < many <= threads]
    return max(1.0, max(more) / one) if one and more else _MOST_GAIN


def shared_part(inputs: Inputs, draw: Draw) -> float:
    """Give the part of computing that several threads share.

    No more than large products gain by them, than they ran, and than long operators take.
    """
    series = dict(inputs.constants.series("cpu.gemm.fp32")) if inputs.constants else {}
    one, more = series.get(1), series.get(inputs.threads)
    most = PARALLEL.high
    if one and more and inputs.threads > 1:
        most = max(0.0, 1 - one / more) * inputs.threads / (inputs.threads - 1)
    part, threads = min(PARALLEL.high, most), inputs.threads
    for share in (helped(inputs), inputs.shareable):  # who computes runs, in long operators
        if share is not None:
            part = min(part, share * threads / (1 - share + share * threads))
    return draw.of("threads", Interval(0.0, min(PARALLEL.mid, part / 2), part))


def helped(inputs: Inputs) -> float | None:
    """Give in what share of the training thread's time its other threads ran; ``None``: unknown."""
    rows, used = inputs.rows, inputs.used
    host = float(rows.host.mean())
    if used is None or inputs.threads == 1 or host <= 0:
        return None
    alone = host if inputs.loader.num_workers else host + _made_alone(rows)
    return min(1.0, max(0.0, used * rows.step() - alone) / ((inputs.threads - 1) * host))


def _made_alone(rows: Rows) -> float:
    """Give how long the training thread ran, of a mean wait in which it made a batch itself."""
    known, wait = rows.on >= 0, float(rows.wait.mean())
    blocked, made = int(rows.off[known].sum()), int(rows.wait[known].sum())
    return wait * max(0.0, 1 - blocked / made) if made else wait
