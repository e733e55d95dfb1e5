"""Memory that the kernel hands a training anew in each step, as sampled from outside of it."""

import os
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from gapless.model.recording import Samples
from gapless.model.run import PageFaults
from gapless.recorded.training.processes import Training

_MIN_PLAIN_SHARE: Final = 0.9  # of the time that a sample is the mean of, outside of windows
_MIN_SAMPLES: Final = 2  # the time that the first one is the mean of is not known
_PER_CENT: Final = 100.0
_S: Final = 1e9  # ns
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
Float = npt.NDArray[np.float64]


class _Stretches(Struct, frozen=True):
    """Sampled stretches of a training's first thread, in steps and outside of windows."""

    ends: Float  # ns
    faults: Float  # a step
    kernel_ns: Float  # a step
    step_ns: Float

    def take(self, mask: npt.NDArray[np.bool_]) -> "_Stretches":
        """Return some of them."""
        return _Stretches(
            self.ends[mask], self.faults[mask], self.kernel_ns[mask], self.step_ns[mask]
        )


def measure_page_faults(samples: Samples, trainings: Sequence[Training]) -> PageFaults | None:
    """Return the page faults of the first training's first thread, of a step without a profiler.

    Medians of the sampled stretches in which it stepped, without those of windows: a profiler takes
    memory of its own. Where some lie before the first window, only these count: what a window
    leaves on the heap may change what the C library keeps. Memory that the process gains is not
    handed out anew. ``None`` where it was not sampled.
    """
    cost = samples.series.get("memory.fault_ns")
    training = next((training for training in trainings if training.span is not None), None)
    if cost is None or training is None:
        return None
    plain = _plain_stretches(samples, training)
    if not len(plain.ends):
        return None
    first_ns = min((window.start for window in training.process.windows), default=None)
    is_before = np.ones(len(plain.ends), bool) if first_ns is None else plain.ends <= first_ns
    usual = plain.take(is_before) if is_before.any() else plain
    is_split = is_before.any() and not is_before.all()
    return PageFaults(
        count=float(np.median(usual.faults)),
        kernel_ns=float(np.median(usual.kernel_ns)),
        step_ns=float(np.median(usual.step_ns)),
        fault_ns=float(cost[1][0]),
        page_bytes=_PAGE,
        since_window=float(np.median(plain.take(~is_before).faults)) if is_split else None,
    )


def _plain_stretches(samples: Samples, training: Training) -> _Stretches:
    name, edges = f"process.{training.process.pid}", training.edges
    faults, kernel = (_values_at(samples, f"{name}.{part}") for part in ("faults", "kernel"))
    ends = np.array(sorted(faults.keys() & kernel.keys()), np.int64)
    if len(edges.ends) < _MIN_SAMPLES or len(ends) < _MIN_SAMPLES:
        return _Stretches(*(np.empty(0) for _ in range(4)))
    starts, ends = ends[:-1], ends[1:]
    profiled_ns = np.zeros(len(ends))
    for window in training.process.windows:
        end = window.end + (window.stop_ns or 0) + (window.save_ns or 0)
        profiled_ns += np.clip(np.minimum(ends, end) - np.maximum(starts, window.start), 0, None)
    counted = np.concatenate(([0], np.cumsum(edges.step_counts)))
    n_steps = np.diff(np.interp((starts, ends), edges.ends, counted), axis=0)[0]
    is_plain = (starts >= edges.ends[0]) & (ends <= edges.ends[-1]) & (n_steps > 0)
    is_plain &= profiled_ns <= (1 - _MIN_PLAIN_SHARE) * (ends - starts)
    ends, step_ns = ends[is_plain], ((ends - starts) / np.maximum(n_steps, 1e-9))[is_plain]
    gained = _gained_pages(samples, training)
    return _Stretches(
        ends.astype(np.float64),
        np.array([max(0.0, faults[end] - gained) for end in ends.tolist()]) * step_ns / _S,
        np.array([kernel[end] for end in ends.tolist()]) / _PER_CENT * step_ns,
        step_ns,
    )


def _values_at(samples: Samples, name: str) -> dict[int, float]:
    """Return a series by the time of its samples."""
    times, values = samples.series.get(name, (np.empty(0, np.int64), ()))
    return dict(zip(times.tolist(), values, strict=True))


def _gained_pages(samples: Samples, training: Training) -> float:
    """Return how many pages a second the process came to hold while it stepped."""
    series = samples.series.get(f"process.{training.process.pid}.rss")
    if series is None or training.span is None:
        return 0.0
    times, values = np.asarray(series[0], np.float64), np.asarray(series[1], np.float64)
    inside = (times >= training.span[0]) & (times <= training.span[1])
    if inside.sum() < _MIN_SAMPLES:
        return 0.0
    times, values = times[inside], values[inside]
    return max(0.0, float(values[-1] - values[0]) / _PAGE / (times[-1] - times[0]) * _S)
