"""What a copy costs the work beside it, learned from a trace."""

import pytest

from gapless.accounting import join, partition
from gapless.model.interval import Interval
from gapless.replay.beside import slowdown
from gapless.replay.select import View, view_of
from tests.accounting.drawing import Act, Drawing, draw
from tests.replay.windows import act, call

USUAL = Interval(1.0, 1.02, 1.05)


def view(pairs: int, beside: float) -> View:
    """Run a kernel of 100 µs alone, and a copy with the same kernel beside it, so many times."""
    acts = list[Act]()
    for at in range(pairs):
        begin = at * 1000
        first, copies, second = (call(begin + more, begin + more + 5) for more in (0, 300, 310))
        copy = act(begin + 320, begin + 900, copies, "h2d")
        acts += [
            act(begin + 10, begin + 110, first),
            Act(copy.id, copy.start, copy.end, copy.call, "h2d", stream=14),
            act(begin + 330, begin + 330 + 100 * beside, second),
        ]
    trace = draw(Drawing(acts, steps=[0, pairs * 1000_000])).trace
    joined = join(trace)
    return view_of(joined, partition(trace, joined=joined))


def test_equal_kernels_beside_copies_and_alone_tell_the_factor() -> None:
    found = slowdown(view(6, 1.3), USUAL)
    assert (found.low, found.mid, found.high) == pytest.approx((1.3, 1.3, 1.3))


def test_with_few_pairs_it_is_the_usual_factor() -> None:
    assert slowdown(view(4, 1.3), USUAL) == USUAL


def test_a_copy_makes_nothing_faster() -> None:
    assert slowdown(view(6, 0.9), USUAL).mid == 1
