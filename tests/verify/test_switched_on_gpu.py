"""A prefetcher that was switched in one process on a GPU: what its recorded steps decide."""

import json
from pathlib import Path

import numpy as np
import pytest

from gapless.verify.arms.blocks import SwitchedSteps, cut_blocks
from gapless.verify.arms.steady import ArmSteps

_RECORDED = json.loads((Path(__file__).parent / "prefetched_on_gpu.json").read_text("utf-8"))


def read_steps(*, has_turns: bool) -> SwitchedSteps:
    lengths = np.array(_RECORDED["lengths_us"], np.int64) * 1000
    turns_ns = np.array(_RECORDED["turns_us"], np.int64) * 1000 * has_turns
    steps = ArmSteps(
        lengths=lengths,
        ends=np.cumsum(np.concatenate(([0], lengths))),
        n_warm_up=10,
        round_steps=_RECORDED["round_steps"],
        periods=(),
        samples=64,
        epoch=None,
        start_ns=0,
        first_batch_ns=None,
        turn_ns=None,
        turns_ns=turns_ns,
        exit_ns=None,
        foreign=None,
    )
    switches = [(start, side, kind) for start, side, kind in _RECORDED["switches"]]
    return SwitchedSteps(
        blocks=tuple(cut_blocks(steps, switches, np.zeros(len(lengths)))),
        active=0,
        obstacles={},
        failed=frozenset(),
        on_device=True,
        foreign=None,
        seconds=20.0,
        memory_peaks={},
        losses=(),
    )


def test_steps_in_which_an_epoch_turns_are_left_out_of_blocks() -> None:
    steps = read_steps(has_turns=True)
    speedup, unedited_ns, edited_ns = steps.speedup(1), steps.step_ns(0), steps.step_ns(1)
    assert speedup is not None
    assert unedited_ns is not None
    assert edited_ns is not None
    assert speedup.low > 1.0
    assert speedup.low < unedited_ns / edited_ns < speedup.high
    assert unedited_ns / edited_ns == pytest.approx(speedup.mid, rel=0.03)


def test_with_them_nothing_is_proven() -> None:
    speedup = read_steps(has_turns=False).speedup(1)
    assert speedup is not None
    assert speedup.low < 1.0
