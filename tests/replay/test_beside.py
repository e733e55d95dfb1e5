"""What a copy costs the work beside it, learned from a trace."""

import pytest

from gapless.accounting import join_trace, partition
from gapless.model.estimate import Estimate
from gapless.replay.edits.copy_interference import copy_interference
from gapless.replay.edits.select import ReplayView, view_of
from tests.accounting.drawing import Act, Drawing, draw
from tests.replay.windows import act, call

USUAL = Estimate(1.0, 1.02, 1.05)


def make_view(pairs: int, stretch: float) -> ReplayView:
    """Run a kernel of 100 µs alone, and a copy with the same kernel beside it, so many times."""
    acts = list[Act]()
    for index in range(pairs):
        begin = index * 1000
        alone_call, copy_call, paired_call = (
            call(begin + offset, begin + offset + 5) for offset in (0, 300, 310)
        )
        copy = act(begin + 320, begin + 900, copy_call, "h2d")
        acts += [
            act(begin + 10, begin + 110, alone_call),
            Act(copy.id, copy.start, copy.end, copy.call, "h2d", stream=14),
            act(begin + 330, begin + 330 + 100 * stretch, paired_call),
        ]
    trace = draw(Drawing(acts, steps=[0, pairs * 1000_000])).trace
    joined_trace = join_trace(trace)
    return view_of(joined_trace, partition(trace, joined_trace=joined_trace))


def test_equal_kernels_beside_copies_and_alone_tell_the_factor() -> None:
    interference = copy_interference(make_view(6, 1.3), USUAL)
    assert (interference.low, interference.mid, interference.high) == pytest.approx((1.3, 1.3, 1.3))


def test_with_few_pairs_it_is_the_usual_factor() -> None:
    assert copy_interference(make_view(4, 1.3), USUAL) == USUAL


def test_a_copy_makes_nothing_faster() -> None:
    assert copy_interference(make_view(6, 0.9), USUAL).mid == 1
