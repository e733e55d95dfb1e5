"""Fixes that let other kernels do the work: in another format, another layout, another choice."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gapless.catalogue.choosing import setting
from gapless.catalogue.computing import host_events, in_half, roof_of, rounds_convolutions
from gapless.model.change import Change, Scale
from gapless.model.edit import Proposal, SetGlobal
from gapless.model.facts import Facts
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.work import Work
from gapless.replay import formats
from gapless.replay.attention import fused, unfused
from gapless.replay.recomputed import kept
from gapless.replay.roofline import MATH, SAME, kind_of, scales

_CHOSEN: Final = Interval(0.8, 0.97, 1.01)  # of convolutions, by measuring instead of a table
_MATH_BACKEND: Final = "_scaled_dot_product_attention_math"
Changes = tuple[Change, ...]
_NOTHING: Final[Changes] = (Scale(SAME, leaves=("busy.",)),)  # that it changes nothing is known


def kernels(seen: Seen, proposal: Proposal) -> Changes | None:
    """Give what a fix changes of the kernels; ``None``: not before it is tried."""
    if seen.facts is None or not seen.study.work:
        return None
    found = _KERNELS[proposal.fix](seen, proposal, seen.facts)
    return _NOTHING if found == () else found


def _tf32(seen: Seen, proposal: Proposal, _facts: Facts) -> Changes | None:
    if not seen.on_device:
        return None  # what a processor then computes in depends on its instructions
    targets = {one.target for one in proposal.edits if isinstance(one, SetGlobal)}
    convolutions = "torch.backends.cudnn.allow_tf32" in targets
    return formats.in_tf32(seen.study.work, roof_of(seen), convolutions=convolutions)


def _bf16(seen: Seen, _proposal: Proposal, _facts: Facts) -> Changes | None:
    roof = roof_of(seen)
    if not seen.on_device and (roof is None or "bf16" not in roof.peaks.flops):
        return None  # a processor may have no instructions for it
    return formats.in_half(seen.study.work, roof, "bf16", host_events(seen))


def _fp16(seen: Seen, _proposal: Proposal, _facts: Facts) -> Changes | None:
    if not seen.on_device:
        return None
    return formats.in_half(seen.study.work, roof_of(seen), "fp16", host_events(seen))


def _channels_last(seen: Seen, _proposal: Proposal, facts: Facts) -> Changes | None:
    if not seen.on_device:
        return None
    return formats.channels_last(
        seen.study.work, roof_of(seen), half=in_half(facts), tf32=rounds_convolutions(facts)
    )


def _benchmark(seen: Seen, _proposal: Proposal, _facts: Facts) -> Changes:
    return chosen(seen.study.work)


def chosen(rows: Sequence[Work]) -> Changes:
    """Give what choosing the kernels of convolutions by their time changes."""

    def factor(work: Work) -> Interval:
        return _CHOSEN if work.leaf in MATH and kind_of(work) == "convolution" else SAME

    return scales(rows, factor)


def _sdpa(seen: Seen, proposal: Proposal, facts: Facts) -> Changes | None:
    """Know what leaving the fallback gives; which of the fused kernels is best, is to be tried."""
    slow = any(_MATH_BACKEND in one.name for one in seen.study.tables.operators)
    found = unfused(seen.study.work) if slow else None
    if found is None or setting(facts, "flash_sdp") is False or "math" in proposal.summary:
        return None
    return fused(seen.study.work, found, roof_of(seen))


def _kept(seen: Seen, _proposal: Proposal, _facts: Facts) -> Changes | None:
    return kept(seen.study.work) or None


_KERNELS: Final[Mapping[str, Callable[[Seen, Proposal, Facts], Changes | None]]] = {
    "tf32": _tf32,
    "bf16": _bf16,
    "fp16": _fp16,
    "channels-last": _channels_last,
    "cudnn-benchmark": _benchmark,
    "sdpa": _sdpa,
    "checkpointing-off": _kept,
}
KERNELS: Final = tuple(_KERNELS)
