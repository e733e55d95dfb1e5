"""Memory that the kernel hands a training anew in each step, as sampled from outside of it."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from gapless.model.recording import Process, Samples
from gapless.model.run import PageFaults
from gapless.model.trace import Int64
from gapless.recorded.training.edges import profiled_spans
from gapless.recorded.training.processes import Training

_MIN_PLAIN_SHARE: Final = 0.9  # of the time that a sample is the mean of, without any profiler
_MIN_SAMPLES: Final = 2  # the time that the first one is the mean of is not known
_MIN_STRETCHES: Final = 2  # before any profiler: the first one may still warm up
_MIN_STEPS: Final = 3  # in a stretch: fewer are not what a step usually is
# Behind a window a child that saves it shares the memory, which is copied where it is written to:
# what steps write is written in each of them.
_COPYING_STEPS: Final = 2
_PER_CENT: Final = 100.0
_S: Final = 1e9  # ns
Float = npt.NDArray[np.float64]


class _Stretches(Struct, frozen=True):
    """Sampled stretches of a training's first thread, in steps and without any profiler."""

    ends: Float  # ns
    ns: Float  # how long each was
    faults: Float  # in each, but for pages that the process came to hold
    kernel_ns: Float  # in each
    steps: Float  # in each

    def take(self, mask: npt.NDArray[np.bool_]) -> "_Stretches":
        """Return some of them."""
        columns = (self.ends, self.ns, self.faults, self.kernel_ns, self.steps)
        return _Stretches(*(column[mask] for column in columns))

    def per_step(self, amounts: Float) -> float:
        """Return what a step has of something: the median, or the mean where steps are long."""
        if float(np.median(self.steps)) < _MIN_STEPS:
            return max(0.0, float(amounts.sum() / self.steps.sum()))
        return max(0.0, float(np.median(amounts / self.steps)))


def measure_page_faults(samples: Samples, trainings: Sequence[Training]) -> PageFaults | None:
    """Return the page faults of a training's first thread, of a step without a profiler.

    Of the first training that was sampled while it stepped. Where stretches lie before any
    profiler, only these count: what it leaves on the heap may change what the C library keeps.
    Memory that the process gains is not handed out anew. ``None`` where it was not sampled.
    """
    costs = [samples.series.get(f"memory.{name}") for name in ("fault_ns", "page_bytes")]
    fault_ns, page_bytes = (cost[1][0] if cost is not None else None for cost in costs)
    if not fault_ns or not page_bytes:
        return None
    for training in trainings:
        plain = _plain_stretches(samples, training, page_bytes)
        if plain is None:
            continue
        first_ns = profiled_spans(training.process)[0].min(initial=np.iinfo(np.int64).max)
        is_before = plain.ends <= first_ns
        is_split = _MIN_STRETCHES <= int(is_before.sum()) < len(is_before)
        usual = plain.take(is_before) if is_split else plain
        later = plain.take(~is_before)
        return PageFaults(
            count=usual.per_step(usual.faults),
            kernel_ns=usual.per_step(usual.kernel_ns),
            step_ns=usual.per_step(usual.ns),
            fault_ns=float(fault_ns),
            page_bytes=int(page_bytes),
            since_window=later.per_step(later.faults) if is_split else None,
        )
    return None


def _plain_stretches(samples: Samples, training: Training, page_bytes: float) -> _Stretches | None:
    name, edges = f"process.{training.process.pid}", training.edges
    series = [_values_at(samples, f"{name}.{part}") for part in ("faults", "kernel", "rss")]
    times = np.array(sorted(series[0].keys() & series[1].keys() & series[2].keys()), np.int64)
    if len(edges.ends) < _MIN_SAMPLES or len(times) < _MIN_SAMPLES:
        return None
    faults, kernel, resident = (np.array([row[time] for time in times.tolist()]) for row in series)
    starts, ends = times[:-1], times[1:]
    seconds = (ends - starts) / _S
    counted = np.concatenate(([0], np.cumsum(edges.step_counts)))
    n_steps = np.diff(np.interp((starts, ends), edges.ends, counted), axis=0)[0]
    is_plain = (starts >= edges.ends[0]) & (ends <= edges.ends[-1]) & (n_steps > 0)
    copying_ns = _COPYING_STEPS * (edges.ends[-1] - edges.ends[0]) / max(1, counted[-1])
    profiled_ns = _profiled_ns(training.process, (starts, ends), copying_ns)
    is_plain &= profiled_ns <= (1 - _MIN_PLAIN_SHARE) * (ends - starts)
    if not is_plain.any():
        return None
    return _Stretches(
        ends.astype(np.float64),
        (ends - starts).astype(np.float64),
        faults[1:] * seconds - np.diff(resident) / page_bytes,
        kernel[1:] / _PER_CENT * (ends - starts),
        n_steps,
    ).take(is_plain)


def _profiled_ns(process: Process, stretches: tuple[Int64, Int64], copying_ns: float) -> Float:
    """Return how long a profiler, or what it left behind, was at work in each stretch."""
    starts, ends = stretches
    profiled_ns = np.zeros(len(ends))
    for start, end in zip(*profiled_spans(process), strict=True):
        inside_ns = np.minimum(ends, end + copying_ns) - np.maximum(starts, start)
        profiled_ns += np.clip(inside_ns, 0, None)
    return profiled_ns


def _values_at(samples: Samples, name: str) -> dict[int, float]:
    """Return a series by the time of its samples."""
    times, values = samples.series.get(name, (np.empty(0, np.int64), ()))
    return dict(zip(times.tolist(), values, strict=True))
