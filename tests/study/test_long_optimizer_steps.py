"""Backward passes end the steps of an optimizer whose steps take seconds."""

import pytest

from gapless.recorded.training.edges import find_edges
from gapless.verify.arms.steady import read_steps
from tests.study.recording import MS, Log, recording


def accumulating(n_steps: int, n_passes: int, pass_ms: float, *, n_noted: int) -> Log:
    """Return the log of a training that accumulates; of so many steps the passes are noted."""
    log = Log()
    for step in range(n_steps):
        for call in range(n_passes if step < n_noted else 0):
            end = (step * n_passes + call + 1) * pass_ms
            log.add_mark("backward", end - pass_ms / 2, end, subject=3)
        log.add_steps((step + 1) * n_passes * pass_ms + 1)
    return log


@pytest.mark.parametrize(
    ("n_steps", "n_passes", "pass_ms", "n_noted", "rule"),
    [
        (12, 10, 400, 12, "backward"),
        (3, 10, 400, 3, "backward"),
        (3, 10, 40, 3, "optimizer"),  # its steps are short
        (12, 10, 400, 5, "optimizer"),  # passes of the first steps alone are noted
        (12, 2, 2_000, 12, "optimizer"),  # too few passes make a step
    ],
)
def test_passes_end_long_steps_of_an_optimizer(
    n_steps: int, n_passes: int, pass_ms: float, n_noted: int, rule: str
) -> None:
    edges = find_edges(accumulating(n_steps, n_passes, pass_ms, n_noted=n_noted).to_process())
    passes = n_passes if rule == "backward" else None
    assert (edges.rule, edges.count, edges.passes) == (rule, n_steps * (passes or 1), passes)
    assert edges.update_ns == (MS if passes else 0)


def test_arms_of_a_trial_hold_whole_steps_of_the_optimizer() -> None:
    log = accumulating(12, 10, 400, n_noted=12)
    steps = read_steps(recording(log, ended_ms=60_000))
    assert steps is not None
    assert steps.periods == (10,)
