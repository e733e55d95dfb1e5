"""A prediction as two timelines: a step of a window as it is, and with the first proposal.

Both are replays of the same step, less what tracing cost, so that they differ by the change alone.
What a loader's queue predicts no trace shows: there the waits for data are drawn as long as it
says, and all else moves up.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from gapless.accounting import join_trace, partition, sum_ledgers
from gapless.capture.picture import draw_window
from gapless.capture.summarize import build_view
from gapless.model.change import LoaderChange
from gapless.model.edit import Proposal
from gapless.model.leaf import GROUPS
from gapless.model.picture import Forecast, Picture, StepSpan, Strip, StripKind
from gapless.model.trace import Int64, Trace
from gapless.pricing.price import Prices, split_outside
from gapless.pricing.propose import predict_effect

_DATA: Final = GROUPS.index("data")
_MAX_DEPTH: Final = 1  # of nested events: the outer ones show how a step is made
_SHOWN_KINDS: Final = (StripKind.ACCOUNT, StripKind.THREAD, StripKind.STREAM)


def draw_forecast(prices: Prices, proposals: Sequence[Proposal]) -> Forecast | None:
    """Draw a step now and with the first proposal; ``None`` where no window shows it."""
    if not proposals or proposals[0].outcome is None:
        return None
    changes = predict_effect(prices, proposals[0])
    if not changes:
        return None
    inner_changes = [
        change
        for change in split_outside(prices.evidence, changes)[1]
        if not isinstance(change, LoaderChange)
    ]
    by_queue = any(isinstance(change, LoaderChange) for change in changes)
    before = _draw_trace(prices.simulator.draw(()))
    after = _draw_trace(prices.simulator.draw(inner_changes)) if inner_changes else before
    if before is None or after is None:
        return None
    number = _find_usual(before.steps)
    before_step, after_step = _crop_to(before, number), _crop_to(after, number)
    if before_step is None or after_step is None or not (inner_changes or by_queue):
        return None
    if by_queue:
        after_step = _scale_waits(after_step, _wait_ratio(prices, proposals[0]))
    return Forecast(proposals[0].fix, before_step, after_step, by_queue)


def _draw_trace(trace: Trace | None) -> Picture | None:
    if trace is None:
        return None
    joined = join_trace(trace)
    ledger = partition(trace, joined_trace=joined)
    return draw_window(build_view(joined, ledger, sum_ledgers([ledger])))


def _find_usual(steps: Sequence[StepSpan]) -> int | None:
    """Return the number of the step of (lower) median length."""
    by_length = sorted(steps, key=lambda step: step.end - step.start)
    return by_length[(len(by_length) - 1) // 2].number if by_length else None


def _crop_to(picture: Picture, number: int | None) -> Picture | None:
    """Return one step of a picture; ``None`` where it is not drawn."""
    step = next((step for step in picture.steps if step.number == number), None)
    if step is None:
        return None
    strips = (
        _crop_strip(strip, step.start, step.end) for strip in picture.strips if _is_shown(strip)
    )
    return replace(
        picture,
        length_ns=step.end - step.start,
        strips=tuple(strip for strip in strips if len(strip.start)),
        steps=(StepSpan(step.number, 0, step.end - step.start),),
        left_out_steps=0,
    )


def _is_shown(strip: Strip) -> bool:
    return strip.kind in _SHOWN_KINDS


def _crop_strip(strip: Strip, begin: int, end: int) -> Strip:
    is_kept = (strip.start < end) & (strip.end > begin) & (strip.depth <= _MAX_DEPTH)
    return replace(
        strip,
        start=strip.start[is_kept].clip(begin) - begin,
        end=strip.end[is_kept].clip(max=end) - begin,
        name=strip.name[is_kept],
        leaf=strip.leaf[is_kept],
        group=strip.group[is_kept],
        depth=strip.depth[is_kept],
    )


def _wait_ratio(prices: Prices, proposal: Proposal) -> float:
    """Return what remains of the waits for data, as a share."""
    account, outcome = prices.evidence.account, proposal.outcome
    if outcome is None:
        return 1.0
    wait_ns = account.groups.get("data", 0) / max(1, account.steps or 1)
    return min(1.0, outcome.groups.get("data", 0) / wait_ns) if wait_ns else 1.0


def _scale_waits(picture: Picture, ratio: float) -> Picture:
    """Return a picture whose waits for data are shorter by a ratio; the rest moves up."""
    account = next((strip for strip in picture.strips if strip.kind is StripKind.ACCOUNT), None)
    if account is None:
        return picture
    is_wait = account.group == _DATA
    bounds = np.stack((account.start, account.end), axis=1).reshape(-1)
    lengths = np.where(is_wait, (account.end - account.start) * ratio, account.end - account.start)
    moved = np.stack((np.cumsum(lengths) - lengths, np.cumsum(lengths)), axis=1).reshape(-1)

    def move(times: Int64) -> Int64:
        return np.rint(np.interp(times, bounds, moved)).astype(np.int64)

    length_ns = int(move(np.array([picture.length_ns], np.int64))[0])
    return replace(
        picture,
        length_ns=length_ns,
        strips=tuple(
            replace(strip, start=move(strip.start), end=move(strip.end)) for strip in picture.strips
        ),
        steps=tuple(StepSpan(step.number, 0, length_ns) for step in picture.steps),
    )
