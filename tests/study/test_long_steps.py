"""Which steps are long at regular distances, and which only because something held them up."""

import numpy as np

from gapless.recorded.steps.long_steps import match_period

_NUMBERS = np.arange(200)


def _steps(period: int, phase: int, long_ns: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    usual_ns = np.random.default_rng(1).integers(900_000, 1_800_000, len(_NUMBERS))
    return np.where(_NUMBERS % period == phase, long_ns, usual_ns).astype(np.int64)


def test_every_twentieth_step_is_long_whatever_its_phase() -> None:
    for phase in (0, 7, 19):
        long_steps = match_period(_NUMBERS, _steps(20, phase, 30_000_000))
        assert long_steps is not None
        assert (long_steps.period, long_steps.count) == (20, 10)
        assert 28_000_000 < long_steps.excess_ns < 29_000_000


def test_steps_that_windows_left_out_do_not_hide_the_period() -> None:
    is_kept = (_NUMBERS < 30) | (_NUMBERS > 45)
    long_steps = match_period(_NUMBERS[is_kept], _steps(20, 5, 30_000_000)[is_kept])
    assert long_steps is not None
    assert long_steps.period == 20


def test_steps_held_up_at_random_have_no_period() -> None:
    lengths = _steps(1000, 999, 0)
    lengths[np.random.default_rng(3).choice(200, 12, replace=False)] = 30_000_000
    assert match_period(_NUMBERS, lengths) is None


def test_steps_that_take_turns_are_all_the_training() -> None:
    assert match_period(_NUMBERS, _steps(2, 0, 30_000_000)) is None


def test_two_long_steps_show_no_period() -> None:
    assert match_period(_NUMBERS[:40], _steps(20, 5, 30_000_000)[:40]) is None


def test_what_comes_every_fiftieth_step_of_an_epoch_has_two_distances() -> None:
    numbers = np.arange(141 * 8)
    usual_ns = np.random.default_rng(1).integers(900_000, 1_800_000, len(numbers))
    lengths = np.where(numbers % 141 % 50 == 0, 30_000_000, usual_ns).astype(np.int64)
    long_steps = match_period(numbers, lengths)
    assert long_steps is not None
    assert (long_steps.count, long_steps.period) == (24, 47)
    assert 28_000_000 < long_steps.excess_ns < 29_000_000
