"""What ``benchmarks.trials_noise`` tries, and what it counts as wrong."""

from argparse import Namespace
from itertools import islice

import pytest

from benchmarks.trials_noise import DELAY, WAIT_MS, Row, edit_of, mix_trials, result, summary
from gapless.model.edit import SetArgument, SetEnv
from gapless.model.trial import TrialVerdict


def row(kind: str, verdict: TrialVerdict, noise: float | None = 0.01, wait_ms: float = 8.0) -> Row:
    return {
        "kind": kind,
        "wait_ms": wait_ms,
        "verdict": verdict.value,
        "noise": noise,
        "speedup": None if noise is None else [0.9, 1.0, 1.1],
        "spent_s": 20.0,
    }


def test_kinds_are_mixed_over_the_whole_time() -> None:
    trials = list(mix_trials(40, 20))
    assert len(set(trials)) == 60
    assert sum(kind == "nothing" for kind, _ in islice(trials, 15)) == 10
    assert {kind for kind, _ in trials[:6]} == {"nothing", "slower", "faster"}


def test_a_delay_is_a_tenth_of_a_step() -> None:
    slower, faster = edit_of("slower", WAIT_MS, 9.0), edit_of("faster", 24.0, 9.0)
    assert isinstance(slower, SetEnv)
    assert isinstance(faster, SetEnv)
    assert float(slower.value or 0) == pytest.approx(WAIT_MS + DELAY * 9)
    assert float(faster.value or 0) == pytest.approx(24 - DELAY * 9)
    idle = SetArgument("torch.utils.data.DataLoader", "num_workers", 0)
    assert edit_of("nothing", WAIT_MS, 9.0) == idle


def test_only_other_verdicts_than_the_right_one_and_undecided_are_wrong() -> None:
    rows = [
        *(
            row("nothing", verdict)
            for verdict in (TrialVerdict.NOTHING, TrialVerdict.UNDECIDED, TrialVerdict.WORSE)
        ),
        *(
            row("slower", verdict)
            for verdict in (TrialVerdict.WORSE, TrialVerdict.NOTHING, TrialVerdict.CONFIRMED)
        ),
        row("faster", TrialVerdict.CONFIRMED, noise=None),
    ]
    faster, nothing, slower = summary(rows)
    assert (nothing["wrong"], nothing["undecided"], nothing["trials"]) == (1, 1, 3)
    assert (slower["wrong"], slower["undecided"]) == (2, 0)
    assert (faster["wrong"], faster["noise"], faster["speedup"]) == (0, None, None)
    assert (nothing["quiet"], nothing["undecided_of_quiet"]) == (3, 1)


def test_noisy_trials_and_other_waits_are_counted_apart() -> None:
    rows = [
        row("slower", TrialVerdict.UNDECIDED, noise=0.03),
        row("slower", TrialVerdict.WORSE, noise=0.02),
        row("slower", TrialVerdict.UNDECIDED, wait_ms=24.0),
    ]
    short, long = summary(rows)
    assert (short["wait_ms"], short["quiet"], short["undecided_of_quiet"]) == (8.0, 1, 0)
    assert (long["wait_ms"], long["quiet"], long["undecided_of_quiet"]) == (24.0, 1, 1)


def test_the_result_names_machine_and_torch() -> None:
    document = result([], Namespace(steps=100, budget=20.0), 1.23)
    assert document["machine"]["torch"] is not None
    assert document["summary"] == []
