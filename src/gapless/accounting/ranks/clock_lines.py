"""How the clock of one rank runs against that of another, by the ends of common collectives.

A collective ends everywhere at once. The rate is the median slope over pairs of collectives that
are half of them apart (Theil's method, with n / 2 pairs: it bears a quarter of wrong ends).
"""

from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from gapless.model.trace import Int64

_MIN_RATE_ENDS: Final = 24  # collectives that show a rate
_MIN_RATE_SPAN_NS: Final = 20_000_000  # between the first and the last of them
_MAX_RATE: Final = 1e-3  # NTP slews a clock by 500 ppm at most, two of them by twice that
_RATE_ERRORS: Final = 6  # standard errors of the median slope that a rate must be away from 0
_DRIFT_SPREADS: Final = 2  # what it adds up to over the span, in median deviations of the ends
_MAD_SIGMA: Final = 1.4826  # standard deviation ÷ median absolute deviation, of normal errors
_MEDIAN_ERROR: Final = 1.2533  # standard error of a median ÷ that of a mean


class ClockLine(Struct, frozen=True):
    """A clock less the reference: ``offset_ns`` at ``pivot_ns``, changing by ``rate`` (ns/ns)."""

    offset_ns: int
    rate: float = 0.0  # 0: none is shown
    pivot_ns: int = 0  # on the reference

    def to_reference(self, instants: Int64) -> Int64:
        """Return instants of this clock on the reference."""
        moved = instants - self.offset_ns
        return moved - self._drift_ns(moved, self.rate / (1 + self.rate))

    def from_reference(self, instants: Int64) -> Int64:
        """Return instants of the reference on this clock."""
        return instants + self.offset_ns + self._drift_ns(instants, self.rate)

    def _drift_ns(self, instants: Int64, rate: float) -> Int64:
        # Of differences: instants themselves may be too large for exact floats.
        return ((instants - self.pivot_ns) * rate).round().astype(np.int64)


def fit_clock(reference_ends: Int64, ends: Int64) -> ClockLine:
    """Return the line of a clock by when the same collectives ended on it and on the reference.

    At least one is needed. Without a significant rate: the median difference.
    """
    shifts = ends - reference_ends
    first_shift = int(shifts[0])
    deviations = shifts - first_shift
    pivot_ns = int(reference_ends[0])
    elapsed = reference_ends - pivot_ns
    rate = _fit_rate(elapsed, deviations)
    if rate:
        deviations = deviations - elapsed * rate
    return ClockLine(first_shift + round(float(np.median(deviations))), rate, pivot_ns)


def _fit_rate(elapsed: Int64, deviations: Int64) -> float:
    """Return the rate, 0 if too few collectives, too short a span or their scatter hides it."""
    if len(elapsed) < _MIN_RATE_ENDS:
        return 0.0
    order = np.argsort(elapsed, kind="stable")
    elapsed, deviations = elapsed[order], deviations[order]
    span_ns, half = int(elapsed[-1] - elapsed[0]), len(elapsed) // 2
    runs, rises = elapsed[half:] - elapsed[:-half], deviations[half:] - deviations[:-half]
    if span_ns < _MIN_RATE_SPAN_NS or not runs.all():
        return 0.0
    slopes = rises / runs
    rate = float(np.median(slopes))
    error = _MEDIAN_ERROR * _MAD_SIGMA * _spread(slopes) / np.sqrt(len(slopes))
    scatter_ns = _spread(deviations - elapsed * rate)
    drift_ns = abs(rate) * span_ns
    is_shown = abs(rate) > _RATE_ERRORS * error and drift_ns > _DRIFT_SPREADS * scatter_ns
    return rate if is_shown and abs(rate) <= _MAX_RATE else 0.0


def _spread(values: npt.NDArray[np.float64]) -> float:
    return float(np.median(np.abs(values - np.median(values))))
