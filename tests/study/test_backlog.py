"""How much a device still had to do when the training thread began to wait for data."""

from gapless.accounting import join_trace, partition
from gapless.capture.summarize import summarise_capture
from gapless.study import Options
from tests.accounting.drawing import Act, Call, Drawing, Frame, draw

STEPS = [(0, 100), (100, 200), (200, 300)]


def backlog(acts: list[Act], frames: list[Frame]) -> int | None:
    trace = draw(Drawing(acts, frames, STEPS)).trace
    joined = join_trace(trace)
    return summarise_capture(joined, partition(trace, joined_trace=joined), Options()).backlog_ns


def test_is_what_was_launched_and_had_not_ended() -> None:
    acts = [Act("a", 60, 140, Call(50, 52)), Act("b", 215, 216, Call(205, 206))]
    waits = [Frame("data", 110, 120), Frame("data", 210, 212)]
    assert backlog(acts, waits) == 6  # of 30 and 6 the lower middle


def test_is_nothing_where_the_device_was_idle() -> None:
    assert backlog([Act("a", 60, 90, Call(50, 52))], [Frame("data", 110, 120)]) == 0


def test_is_that_at_the_end_of_steps_where_main_never_waits() -> None:
    acts = [Act("a", 160, 240, Call(150, 152)), Act("b", 260, 370, Call(250, 252))]
    assert backlog(acts, []) == 40


def test_is_not_known_without_a_device() -> None:
    assert backlog([], [Frame("op", 0, 300), Frame("data", 110, 120)]) is None
