"""What gapless says of the zoo's records is no worse than what was committed.

Some records in every run of the suite, all of them with ``--slow``. ``benchmarks.accuracy`` makes
the committed result; whoever changes a rule for the better makes it anew.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from benchmarks.judging import figures, metrics
from benchmarks.judging.answers import Answer
from benchmarks.judging.looking import ask_held_out, study_record
from benchmarks.judging.metrics import JudgedCases
from benchmarks.judging.records import ZOO, Record, read_records
from benchmarks.judging.told import GAPLESS, judge_again
from gapless.replay.predict.calibration import load_residuals

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "benchmarks" / "results" / "accuracy.json"
FAST_PERIOD = 12  # of so many records, one is asked in every run of the suite
TOLERANCE = 0.5  # points of step time: what another version of NumPy may change
pytestmark = pytest.mark.skipif(not RESULT.exists(), reason="accuracy has not been measured yet")


@cache
def result() -> dict[str, Any]:
    return json.loads(RESULT.read_text())


RECORDS = read_records(ZOO)
RECORD_PARAMS = [
    pytest.param(record, marks=[pytest.mark.slow] if index % FAST_PERIOD else [], id=record.case)
    for index, record in enumerate(RECORDS)
]


@pytest.mark.parametrize("record", RECORD_PARAMS)
def test_a_record_is_diagnosed_as_well_as_it_was(record: Record, tmp_path: Path) -> None:
    before = judge_again(result(), [record])
    if not before:
        pytest.skip("it was recorded after the result was made")
    _, prices = study_record(record, tmp_path)
    answer = ask_held_out(prices, record, load_residuals()).answer
    now: JudgedCases = [(record, answer)]
    assert metrics.hit_share(now, 1).count >= metrics.hit_share(before, 1).count
    assert metrics.hit_share(now, 3).count >= metrics.hit_share(before, 3).count
    assert metrics.false_alarms(now).count <= metrics.false_alarms(before).count
    assert metrics.harmless_named(now).count <= metrics.harmless_named(before).count
    assert metrics.answered_share(now).count >= metrics.answered_share(before).count
    assert sum(metrics.regrets(now)) <= sum(metrics.regrets(before)) + 0.01
    assert lines_of(answer) >= lines_of(before[0][1])
    assert mean_error(now) <= mean_error(before) + TOLERANCE


def lines_of(answer: Answer) -> set[str]:
    return set(answer.predicted)


def mean_error(judged: JudgedCases) -> float:
    return metrics.mean_error(metrics.gain_misses(judged)) or 0.0


def test_the_committed_figures_are_those_of_the_committed_answers() -> None:
    judged = judge_again(result(), RECORDS)
    document = json.loads(json.dumps(figures.figure_table(judged)))
    committed_figures = result()["tools"][GAPLESS]
    if len(judged) == result()["records"]["all"]:
        for name in ("first", "first_three", "false_alarms", "answered", "predicted"):
            assert document[name]["count"] == committed_figures[name]["count"]
        assert document["gains"]["all"]["of"] == committed_figures["gains"]["all"]["of"]
        assert document["regret_mean"] == pytest.approx(committed_figures["regret_mean"], abs=1e-4)


def test_every_account_of_every_record_summed_exactly() -> None:
    assert result()["health"]["inexact"] == 0
