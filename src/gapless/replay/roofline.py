"""How long kernels would take in another format or layout: rooflines, with the old efficiency kept.

A kernel needs at least its operations at the peak of its format and its bytes at the bandwidth,
which overlap (their hypotenuse stands for both), and the time of a kernel that does nothing. How
far it is from these is its efficiency, which another kernel for the same work is taken to share:
less some, since a faster format is harder to feed. Where a formula or a peak is missing, a prior
stands in, as wide as it is uncertain.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot
from typing import Final

from gapless.model.change import Hosted, Scale
from gapless.model.interval import Interval
from gapless.model.work import Work
from gapless.replay.peaks import Peaks

SAME: Final = Interval(1.0, 1.0, 1.0)
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
_SLOWER: Final = 1.5  # no change of format makes a kernel slower than that
_BETTER: Final = 1.2  # the efficiency of new kernels is at most that of the old ones times this
# Of the old efficiency the new kernels keep: at most, likely, at least.
_KEPT: Final = {
    "product": Interval(1.1, 0.9, 0.55),
    "convolution": Interval(1.0, 0.6, 0.3),
    "attention": Interval(0.8, 0.5, 0.25),
}
Factor = Callable[[Work], Interval]


@dataclass(frozen=True)
class Roof:
    """A machine's peaks, and what a kernel needs below them."""

    peaks: Peaks

    def least_ns(self, work: Work, form: str, width: float = 1.0) -> float | None:
        """Give what all calls of a row need at least, in ns: operations, bytes, launches."""
        peak = self.peaks.flops.get(form)
        if work.flops is None or work.bytes is None or (peak is None and work.flops):
            return None
        flops = work.flops / peak if peak else 0.0
        moved = work.bytes * width / self.peaks.bandwidth
        return hypot(flops, moved) * 1e9 + max(work.launches, work.calls) * self.peaks.kernel_ns

    def efficiency(self, work: Work, form: str) -> float | None:
        """Give how close a row is to what it needs at least; ``None`` where that is not known."""
        least = self.least_ns(work, form)
        return None if least is None or not work.ns else min(1.0, least / work.ns)

    def bound_ns(self, work: Work, form: str) -> float | None:
        """Give the same with operations and bytes at once: what no kernel undercuts."""
        peak = self.peaks.flops.get(form)
        if work.flops is None or work.bytes is None or (peak is None and work.flops):
            return None
        return max(work.flops / peak if peak else 0.0, work.bytes / self.peaks.bandwidth) * 1e9

    def factor(self, work: Work, old: str, new: str) -> Interval | None:
        """Give what a row of products takes in another format; ``None`` without a formula or peak.

        Bytes are those of the new format; memory keeps its bandwidth whatever the format.
        """
        before = self.efficiency(work, old)
        peak = self.peaks.flops.get(new)
        if before is None or not before or not peak or not work.flops or work.bytes is None:
            return None
        kept = _KEPT[kind_of(work)]
        moved = work.bytes * _width(old, new) / self.peaks.bandwidth * 1e9
        launched = work.launches * self.peaks.kernel_ns
        flops = work.flops / peak * 1e9
        best = max(flops / kept.low, moved) / min(1.0, before * _BETTER)
        likely = (hypot(flops / kept.mid, moved) + launched) / before
        worst = (flops / kept.high + moved + launched) / before
        ends = sorted((best / work.ns, likely / work.ns, worst / work.ns))
        known = self.peaks.known
        return Interval(
            min(ends[0] * known.low, _SLOWER),
            min(ends[1], _SLOWER),
            min(ends[2] * known.high, _SLOWER),
        )


def proven(peaks: Peaks, rows: Sequence[Work]) -> Peaks:
    """Give peaks that are taken from a generation, with how they are known from the run itself.

    Its members differ in how many processors they have and in their clock, which all formats share.
    Where products of a run come to the peak of their format, the device is none of the slower ones.
    """
    if peaks.measured or not any(_speed(one, peaks) >= 1 for one in rows):
        return peaks
    known = peaks.known
    return replace(peaks, known=Interval(known.low, known.mid, min(known.high, 1.0)))


def _speed(work: Work, peaks: Peaks) -> float:
    """Give how fast products are, of the peak of what they are computed in; 0.0: not known."""
    if not work.flops or not work.ns or kind_of(work) != "product" or work.leaf not in MATH:
        return 0.0
    on_cores = work.dtype == "fp32" and work.leaf == "busy.tc_math"
    peak = peaks.flops.get("tf32" if on_cores else work.dtype or "")
    return work.flops / peak / work.ns * 1e9 if peak else 0.0


def kind_of(work: Work) -> str:
    """Tell products, convolutions and attention apart."""
    if "conv" in work.operator:
        return "convolution"
    return "attention" if "attention" in work.operator else "product"


def scales(rows: Sequence[Work], factor: Factor) -> tuple[Scale, ...]:
    """Give the change that brings these factors: one for each leaf, weighted by time.

    What is not known of the rows of a leaf is taken to err alike.
    """
    leaves: dict[str, list[Work]] = {}
    for one in rows:
        leaves.setdefault(one.leaf, []).append(one)
    found: list[Scale] = []
    for leaf, mine in sorted(leaves.items()):
        joint = mean([(factor(one), one.ns) for one in mine])
        if joint != SAME:
            found.append(Scale(joint, leaves=(leaf,)))
    return tuple(found)


def mean(parts: Iterable[tuple[Interval, float]]) -> Interval:
    """Give the mean of factors by time; of none, no change."""
    every = [one for one in parts if one[1] > 0]
    whole = sum(ns for _, ns in every)
    if not whole:
        return SAME
    return Interval(
        sum(one.low * ns for one, ns in every) / whole,
        sum(one.mid * ns for one, ns in every) / whole,
        sum(one.high * ns for one, ns in every) / whole,
    )


def more_launches(rows: Sequence[Work], extra: Interval) -> tuple[Hosted, ...]:
    """Give what so many launches more (or fewer: below 0) cost the host, at the mean of others."""
    launches = sum(one.launches for one in rows)
    if not launches or extra == Interval(0.0, 0.0, 0.0):
        return ()
    factor = Interval(*(max(0.0, 1 + one / launches) for one in (extra.low, extra.mid, extra.high)))
    return (Hosted(_PER_LAUNCH, factor),)


def fewer_launches(
    rows: Sequence[Work], gone: Sequence[Work], share: Interval
) -> tuple[Hosted, ...]:
    """Give what the host saves where that share of some rows' launches goes, and what led to them.

    By the time that it took to come to them; where that is not known all launches cost alike.
    """
    timed = any(one.host_ns for one in rows)
    every, mine = (
        sum(one.host_ns if timed else one.launches for one in some) for some in (rows, gone)
    )
    if not every or not mine:
        return ()
    part = mine / every
    factor = Interval(*(1 - part * one for one in (share.low, share.mid, share.high)))
    return (Hosted((*_PER_LAUNCH, *(("idle.host.python",) if timed else ())), factor),)


def more_casts(
    rows: Sequence[Work], extra: Interval, host_events: int | None
) -> tuple[Hosted, ...]:
    """Give what so many casts more cost the host, by the traced events that one of them is.

    ``host_events``: all that the rows' windows hold, launch calls among them; ``None``: not known.
    """
    launches = sum(one.launches for one in rows)
    if not host_events or not launches:
        return more_launches(rows, extra)
    each = _EVENTS_OF_CAST / (host_events + launches)
    return (
        Hosted(
            _PER_LAUNCH, Interval(1 + extra.low * each, 1 + extra.mid * each, 1 + extra.high * each)
        ),
    )


def is_memory(work: Work) -> bool:
    """Tell whether a row only moves memory: its time follows its bytes."""
    return work.leaf in _MEMORY


def _width(old: str, new: str) -> float:
    widths: Mapping[str, float] = _HALF
    return widths.get(new, 1.0) / widths.get(old, 1.0)


_PER_LAUNCH: Final = ("idle.host.dispatch", "idle.host.engine", "idle.launch")
