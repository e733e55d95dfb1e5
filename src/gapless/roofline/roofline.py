"""How long kernels would take in another format or layout: rooflines, with the old efficiency kept.

A kernel needs at least its operations at the peak of its format and its bytes at the bandwidth,
which overlap (their hypotenuse stands for both), and the time of a kernel that does nothing. How
close it comes to these is its efficiency, which another kernel for the same work is assumed to
share, less some, since a faster format is harder to feed. Where a formula or a peak is missing, a
prior stands in, as wide as it is uncertain.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import hypot
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gapless.model.change import HostChange, Scale
from gapless.model.estimate import Estimate
from gapless.model.work import Work
from gapless.roofline.peaks import Peaks

NO_CHANGE: Final = Estimate(1.0, 1.0, 1.0)
MATH: Final = ("busy.tc_math", "busy.tc_eligible_not_used", "busy.math")
_HALF: Final = {"bf16": 0.5, "fp16": 0.5}  # bytes, of those of fp32
_MEMORY: Final = (
    "busy.elementwise",
    "busy.norm_reduce",
    "busy.layout",
    "busy.cast",
    "busy.mem",
    "busy.rng",
)
_EVENTS_OF_CAST: Final = 6  # to, _to_copy, empty, copy_, the launch call; in a backward the node
_MAX_SLOWDOWN: Final = 1.5  # no change of format makes a kernel slower than this
_MAX_GAIN: Final = 1.2  # the efficiency of new kernels is at most that of the old ones times this
# Of the old efficiency the new kernels keep: at most, likely, at least.
_KEPT_EFFICIENCY: Final = {
    "product": Estimate(1.1, 0.9, 0.55),
    "convolution": Estimate(1.0, 0.6, 0.3),
    "attention": Estimate(0.8, 0.5, 0.25),
}
Factor = Callable[[Work], Estimate]


class Roof(Struct, frozen=True):
    """A machine's peaks, and what a kernel needs below them."""

    peaks: Peaks

    def least_ns(self, work: Work, form: str, width: float = 1.0) -> float | None:
        """Return what all calls of a row need at least, in ns: operations, bytes, launches."""
        peak = self.peaks.flops.get(form)
        if work.flops is None or work.bytes is None or (peak is None and work.flops):
            return None
        flops = work.flops / peak if peak else 0.0
        bytes_s = work.bytes * width / self.peaks.bandwidth
        return hypot(flops, bytes_s) * 1e9 + max(work.launches, work.calls) * self.peaks.kernel_ns

    def efficiency(self, work: Work, form: str) -> float | None:
        """Return how close a row is to what it needs at least; ``None`` where not known."""
        floor_ns = self.least_ns(work, form)
        return None if floor_ns is None or not work.ns else min(1.0, floor_ns / work.ns)

    def bound_ns(self, work: Work, form: str) -> float | None:
        """Return the same with operations and bytes overlapping: a bound for any kernel."""
        peak = self.peaks.flops.get(form)
        if work.flops is None or work.bytes is None or (peak is None and work.flops):
            return None
        return max(work.flops / peak if peak else 0.0, work.bytes / self.peaks.bandwidth) * 1e9

    def factor(self, work: Work, old_form: str, new_form: str) -> Estimate | None:
        """Return a row of products' factor in another format; ``None`` without a formula or peak.

        Bytes are those of the new format; memory keeps its bandwidth whatever the format.
        """
        old_efficiency = self.efficiency(work, old_form)
        peak = self.peaks.flops.get(new_form)
        if (
            old_efficiency is None
            or not old_efficiency
            or not peak
            or not work.flops
            or work.bytes is None
        ):
            return None
        kept_share = _KEPT_EFFICIENCY[kind_of(work)]
        bytes_ns = work.bytes * _width_ratio(old_form, new_form) / self.peaks.bandwidth * 1e9
        launch_ns = work.launches * self.peaks.kernel_ns
        flops_ns = work.flops / peak * 1e9
        best = max(flops_ns / kept_share.low, bytes_ns) / min(1.0, old_efficiency * _MAX_GAIN)
        likely = (hypot(flops_ns / kept_share.mid, bytes_ns) + launch_ns) / old_efficiency
        worst = (flops_ns / kept_share.high + bytes_ns + launch_ns) / old_efficiency
        ends = sorted((best / work.ns, likely / work.ns, worst / work.ns))
        spread = self.peaks.spread
        return Estimate(
            min(ends[0] * spread.low, _MAX_SLOWDOWN),
            min(ends[1], _MAX_SLOWDOWN),
            min(ends[2] * spread.high, _MAX_SLOWDOWN),
        )


def narrow_peaks(peaks: Peaks, rows: Sequence[Work]) -> Peaks:
    """Return peaks of a generation, narrowed by what the run itself shows.

    Its members differ in how many processors they have and in their clock, which all formats share.
    Where products of a run reach the peak of their format, the device is not one of the slower
    ones.
    """
    if peaks.measured or not any(_peak_share(row, peaks) >= 1 for row in rows):
        return peaks
    spread = peaks.spread
    return replace(peaks, spread=Estimate(spread.low, spread.mid, min(spread.high, 1.0)))


def _peak_share(work: Work, peaks: Peaks) -> float:
    """Return the speed of products relative to the peak of their format; 0.0: not known."""
    if not work.flops or not work.ns or kind_of(work) != "product" or work.leaf not in MATH:
        return 0.0
    on_cores = work.dtype == "fp32" and work.leaf == "busy.tc_math"
    peak = peaks.flops.get("tf32" if on_cores else work.dtype or "")
    return work.flops / peak / work.ns * 1e9 if peak else 0.0


def kind_of(work: Work) -> str:
    """Return the kind of a row: products, convolutions or attention."""
    if "conv" in work.operator:
        return "convolution"
    return "attention" if "attention" in work.operator else "product"


def scale_changes(rows: Sequence[Work], factor: Factor) -> tuple[Scale, ...]:
    """Return the change with these factors: one for each leaf, weighted by time.

    The uncertainties of the rows of a leaf are assumed to be correlated.
    """
    rows_by_leaf: dict[str, list[Work]] = {}
    for row in rows:
        rows_by_leaf.setdefault(row.leaf, []).append(row)
    changes: list[Scale] = []
    for leaf, leaf_rows in sorted(rows_by_leaf.items()):
        joint = mean_factor([(factor(row), row.ns) for row in leaf_rows])
        if joint != NO_CHANGE:
            changes.append(Scale(joint, leaves=(leaf,)))
    return tuple(changes)


def mean_factor(weighted: Iterable[tuple[Estimate, float]]) -> Estimate:
    """Return the mean of factors, weighted by time; without any, no change."""
    pairs = [pair for pair in weighted if pair[1] > 0]
    total_ns = sum(ns for _, ns in pairs)
    if not total_ns:
        return NO_CHANGE
    return Estimate(
        sum(factor.low * ns for factor, ns in pairs) / total_ns,
        sum(factor.mid * ns for factor, ns in pairs) / total_ns,
        sum(factor.high * ns for factor, ns in pairs) / total_ns,
    )


def add_launches(rows: Sequence[Work], extra: Estimate) -> tuple[HostChange, ...]:
    """Return what more (or, below 0, fewer) launches cost the host, at the mean of others."""
    launches = sum(row.launches for row in rows)
    if not launches or extra == Estimate(0.0, 0.0, 0.0):
        return ()
    factor = Estimate(
        *(max(0.0, 1 + count / launches) for count in (extra.low, extra.mid, extra.high))
    )
    return (HostChange(_PER_LAUNCH, factor),)


def remove_launches(
    rows: Sequence[Work], removed_rows: Sequence[Work], share: Estimate
) -> tuple[HostChange, ...]:
    """Return what the host saves if a share of some rows' launches goes, with what led to them.

    By the time that led to them; where that is not known all launches cost the same.
    """
    has_times = any(row.host_ns for row in rows)
    all_cost, removed_cost = (
        sum(row.host_ns if has_times else row.launches for row in group)
        for group in (rows, removed_rows)
    )
    if not all_cost or not removed_cost:
        return ()
    removed_share = removed_cost / all_cost
    factor = Estimate(*(1 - removed_share * end for end in (share.low, share.mid, share.high)))
    return (HostChange((*_PER_LAUNCH, *(("idle.host.python",) if has_times else ())), factor),)


def add_casts(
    rows: Sequence[Work], extra: Estimate, host_events: int | None
) -> tuple[HostChange, ...]:
    """Return what additional casts cost the host, by the traced events of one of them.

    ``host_events``: all that the rows' windows hold, launch calls among them; ``None``: not
    known.
    """
    launches = sum(row.launches for row in rows)
    if not host_events or not launches:
        return add_launches(rows, extra)
    cast_share = _EVENTS_OF_CAST / (host_events + launches)
    return (
        HostChange(
            _PER_LAUNCH,
            Estimate(
                1 + extra.low * cast_share, 1 + extra.mid * cast_share, 1 + extra.high * cast_share
            ),
        ),
    )


def is_memory(work: Work) -> bool:
    """Return whether a row only moves memory: its time follows its bytes."""
    return work.leaf in _MEMORY


def _width_ratio(old_form: str, new_form: str) -> float:
    widths: Mapping[str, float] = _HALF
    return widths.get(new_form, 1.0) / widths.get(old_form, 1.0)


_PER_LAUNCH: Final = ("idle.host.dispatch", "idle.host.engine", "idle.launch")
