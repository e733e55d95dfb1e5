"""Courses of switched blocks over made-up step times: when sides are decided, and how truly."""

from collections.abc import Callable, Sequence
from random import Random

import pytest
from msgspec import Struct, field
from msgspec.structs import asdict

from gapless.model.trial import TrialVerdict
from gapless.payload import recorder
from gapless.payload.overlay import models
from gapless.payload.trial import losses, stop, switching
from gapless.verify.arms import compare
from gapless.verify.arms.blocks import SwitchedSteps, read_blocks
from gapless.verify.arms.switchable import plan_switches
from tests.study.recording import Log, recording

MAX_STEPS = 200_000


class Training(Struct):
    """Steps of ``step_ms``, of which each side takes its factor of; and what disturbs them."""

    factors: Sequence[float]  # of each side, the unedited one first
    step_ms: float = 10.0
    noise: float = 0.02  # of each step, relative
    hiccup_ms: float = 0.0  # of one step in a hundred
    hiccup_share: float = 0.01
    random: Random = field(default_factory=lambda: Random(1))

    def take_step(self, side: int) -> float:
        length_ms = self.step_ms * self.factors[side] * (1 + self.random.gauss(0, self.noise))
        is_disturbed = self.random.random() < self.hiccup_share
        return length_ms + (self.hiccup_ms if is_disturbed else 0.0)


def switch(training: Training, monkeypatch: pytest.MonkeyPatch) -> SwitchedSteps:
    """Return the blocks of a training whose sides are switched until they are decided."""
    log = Log(end=None)
    now_ms, side, has_left = 500.0, 0, list[bool]()
    edges = list[Callable[[int, int, int], None]]()
    monkeypatch.setattr(recorder, "now", lambda: round(now_ms * 1e6))
    monkeypatch.setattr(recorder, "flush", lambda: None)
    monkeypatch.setattr(recorder, "on_edge", edges.append)
    # Nothing is trained: what would watch models stays in this process, for tests to come.
    monkeypatch.setattr(models, "on_model", ignore)
    monkeypatch.setattr(losses, "is_finite", lambda: True)
    monkeypatch.setattr(stop, "leave_now", lambda: has_left.append(True))

    def mark(_kind: int, _start: int, _end: int, subject: int, what: int) -> None:
        nonlocal side
        side = subject
        log.add_mark("switch", now_ms, now_ms, subject=subject, value=what)

    monkeypatch.setattr(recorder, "mark", mark)
    n_sides = len(training.factors) - 1
    plan = plan_switches(n_sides, 1000.0)
    switching.begin({**asdict(plan), "sides": [[] for _ in range(n_sides)]})
    # Tests that put everything back in this process have switched all guarded functions off.
    monkeypatch.setattr(vars(edges[0])["guarded"], "on", True)
    for number in range(MAX_STEPS):
        now_ms += training.take_step(side)
        log.add_mark("step", now_ms - 0.5, now_ms)
        edges[0](number, 0, round(now_ms * 1e6))
        if has_left:
            break
    log.end = now_ms
    log.add_fact("machine", 0, None, cpus_of_machine=2)
    steps = read_blocks(recording(log, ended_ms=now_ms), [0] * n_sides)
    assert steps is not None
    return steps


def ignore(_action: object) -> None:
    """Stand for what watches models."""


def judge(steps: SwitchedSteps, side: int) -> TrialVerdict:
    return compare.judge_speedup(steps.speedup(side), steps.noise(side), None)


@pytest.mark.parametrize("step_ms", [2.0, 10.0, 150.0])
def test_one_edit_is_decided_within_twenty_seconds(
    step_ms: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = switch(Training([1.0, 0.9], step_ms), monkeypatch)
    assert judge(steps, 1) is TrialVerdict.CONFIRMED
    assert steps.seconds <= 20


@pytest.mark.parametrize("hiccup_ms", [0.0, 200.0])
def test_ten_edits_are_decided_within_two_minutes(
    hiccup_ms: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    factors = [1.0, 0.8, 0.95, 1.0, 1.1, 0.9, 1.0, 0.97, 1.0, 0.7, 1.0]
    training = Training(factors, noise=0.05, hiccup_ms=hiccup_ms, hiccup_share=0.003)
    steps = switch(training, monkeypatch)
    assert steps.seconds <= 120
    stall_ms = hiccup_ms * training.hiccup_share  # a step, whatever is switched
    for side, factor in enumerate(factors[1:], 1):
        speedup = steps.speedup(side)
        assert speedup is not None
        gain = (training.step_ms + stall_ms) / (training.step_ms * factor + stall_ms)
        assert speedup.low <= gain <= speedup.high or abs(speedup.mid / gain - 1) < 0.01
        if abs(factor - 1) >= 0.1:
            expected = TrialVerdict.CONFIRMED if factor < 1 else TrialVerdict.WORSE
            assert judge(steps, side) is expected


def test_a_decided_side_leaves_the_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training([1.0, 0.5, 0.97], noise=0.3)
    steps = switch(training, monkeypatch)
    clear, small = (len(steps.pairs(side)) for side in (1, 2))
    assert clear >= 3
    assert small > clear, "the other one gets the time"


def test_blocks_do_not_hold_the_steps_in_which_a_side_settles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = switch(Training([1.0, 0.5], noise=0.0), monkeypatch)
    for block in steps.blocks:
        assert block.times_ns == pytest.approx(5e6 if block.side else 1e7)
    assert [block.side for block in steps.blocks][:5] == [0, 0, 0, 1, 0]
