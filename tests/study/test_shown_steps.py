"""Windows that were over before a rarer optimizer was known: their steps are the training's."""

import numpy as np
import pytest
from msgspec.structs import replace

from gapless.model.recording import Window
from gapless.recorded.training.edge_calls import Endings, rarest_subject, shown_steps

CRITIC, GENERATOR, ROUNDS, ROUND = 1, 0, 30, 5
STEP_NS = 20


def endings() -> Endings:
    """Return the steps of a critic, and of a generator after every fifth."""
    calls = [
        (subject, STEP_NS * number + subject)
        for number in range(1, ROUNDS * ROUND + 1)
        for subject in (CRITIC, GENERATOR)
        if subject == CRITIC or number % ROUND == 0
    ]
    subject, end = np.array(sorted(calls, key=lambda call: call[1]), np.int64).T
    ones = np.ones(len(end), np.int64)
    return Endings(subject, 0 * ones, end, ones, ones, -ones)


def window(first_step: int, last_step: int) -> Window:
    """Return a window of some of the critic's steps."""
    start, end = (STEP_NS * step + 2 for step in (first_step - 1, last_step))
    return Window(
        number=1,
        path="window.json.gz",
        start=start,
        end=end,
        first_step=first_step,
        last_step=last_step,
        stacks=False,
        stop_ns=None,
        save_ns=None,
        discarded=None,
    )


def test_windows_of_a_critic_make_its_steps_the_trainings() -> None:
    calls, windows = endings(), [window(8, 12), window(14, 14)]
    assert rarest_subject(calls) == GENERATOR
    steps = shown_steps(calls, GENERATOR, windows)
    assert steps is not None
    assert set(steps.subject.tolist()) == {CRITIC}
    assert steps.end[0] > STEP_NS * ROUND  # the generator's first step made things ready


@pytest.mark.parametrize("windows", [[], [window(8, 11), replace(window(14, 19), first_step=16)]])
def test_without_such_windows_the_anchor_stays(windows: list[Window]) -> None:
    assert shown_steps(endings(), GENERATOR, windows) is None


def test_windows_of_the_anchor_leave_it() -> None:
    assert shown_steps(endings(), CRITIC, [window(8, 12)]) is None


@pytest.mark.parametrize("n_alternating", [0, 4])
def test_windows_of_an_optimizer_whose_phase_is_over_leave_the_phases(n_alternating: int) -> None:
    head, model = CRITIC, GENERATOR
    n_head, n_model = 100, 300
    calls = [(head, STEP_NS * number + head) for number in range(1, n_head + 1)]
    later = range(n_head + 1 - n_alternating, n_head + 1 + n_model)
    calls += [(model, STEP_NS * number + model) for number in later]
    subject, end = np.array(sorted(calls, key=lambda call: call[1]), np.int64).T
    ones = np.ones(len(end), np.int64)
    phases = Endings(subject, 0 * ones, end, ones, ones, -ones)
    assert rarest_subject(phases) == model
    assert shown_steps(phases, model, [window(8, 12)]) is None
