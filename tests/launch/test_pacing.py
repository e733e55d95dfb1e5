"""How long a check waits: as long as the steps of the training need."""

import pytest

from gapless import wire
from gapless.launch.run.pacing import LONGEST_S, USUAL_S, Patience, StepPace

S = 1_000_000_000


def marks(*ends: float, subject: int = 0, kind: int = wire.STEP, flags: int = 0) -> bytes:
    return b"".join(wire.MARK.pack(kind, flags, subject, 1, 0, round(end * S), -1) for end in ends)


def make_pace(*ends: float) -> StepPace:
    pace = StepPace()
    pace.take_marks("rank0.log", marks(*ends))
    return pace


def test_a_step_lasts_from_one_end_to_the_next() -> None:
    pace = make_pace(9)
    assert pace.step_s() is None
    pace.take_marks("rank0.log", marks(1, 2, 3, kind=wire.NEXT) + marks(11, flags=wire.RAISED))
    pace.take_marks("rank0.log", marks(10, subject=1))
    assert pace.step_s() is None
    pace.take_marks("rank0.log", marks(13, 18))
    assert pace.step_s() == pytest.approx(4.5)


def test_many_steps_are_not_counted_for_ever() -> None:
    pace = make_pace(*range(100))
    pace.take_marks("rank0.log", marks(1000))
    assert pace.step_s() == 1


@pytest.mark.parametrize(
    ("step", "several", "waits"),
    [(0.1, False, USUAL_S), (3, False, USUAL_S), (20, False, 330), (20, True, 540)],
)
def test_it_waits_as_long_as_windows_of_such_steps_need(
    step: float, several: bool, waits: float
) -> None:
    assert Patience(None).before_window(make_pace(0, step), several=several) == pytest.approx(waits)
    assert Patience(7).before_window(make_pace(0, step), several=several) == 7
    assert Patience(None).before_window(make_pace(0, 500), several=several) == LONGEST_S


def test_it_says_how_long_it_takes_once_and_again_if_it_is_longer() -> None:
    messages = list[str]()
    patience = Patience(None, messages.append)
    for step in (0.2, 4, 4.1, 20, 300):
        patience.before_window(make_pace(0, step), several=False)
    assert messages == [
        "a step takes 4.0 s: the check takes about 60 s",
        "a step takes 20 s: the check takes about 5 min",
        "a step takes 5 min: 15 min are too few for a window; --seconds 6600 would do",
    ]


def test_passes_of_long_optimizer_steps_are_what_a_check_waits_for() -> None:
    pace = make_pace(20, 40)
    assert pace.step_s() == 20
    pace.take_marks("rank0.log", marks(*range(1, 41), kind=wire.BACKWARD))
    assert pace.step_s() == 1
