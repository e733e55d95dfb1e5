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
from benchmarks.judging.looking import opened, without
from benchmarks.judging.metrics import Judged
from benchmarks.judging.records import ZOO, Record, all_of
from benchmarks.judging.told import OURS, judged_again
from gapless.replay.calibration import committed

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "benchmarks" / "results" / "accuracy.json"
EACH = 8  # of so many records, one is asked in every run of the suite
BESIDE = 0.5  # points of step time: what another version of NumPy may change
pytestmark = pytest.mark.skipif(not RESULT.exists(), reason="accuracy has not been measured yet")


@cache
def result() -> dict[str, Any]:
    return json.loads(RESULT.read_text())


RECORDS = all_of(ZOO)
SOME = [
    pytest.param(record, marks=[pytest.mark.slow] if at % EACH else [], id=record.case)
    for at, record in enumerate(RECORDS)
]


@pytest.mark.parametrize("record", SOME)
def test_a_record_is_diagnosed_as_well_as_it_was(record: Record, tmp_path: Path) -> None:
    before = judged_again(result(), [record])
    if not before:
        pytest.skip("it was recorded after the result was made")
    _, priced = opened(record, tmp_path)
    said = without(priced, record, committed()).answer
    now: Judged = [(record, said)]
    assert metrics.found(now, 1).count >= metrics.found(before, 1).count
    assert metrics.found(now, 3).count >= metrics.found(before, 3).count
    assert metrics.false_alarms(now).count <= metrics.false_alarms(before).count
    assert metrics.harmless_named(now).count <= metrics.harmless_named(before).count
    assert metrics.answered(now).count >= metrics.answered(before).count
    assert sum(metrics.regrets(now)) <= sum(metrics.regrets(before)) + 0.01
    assert lines_of(said) >= lines_of(before[0][1])
    assert error(now) <= error(before) + BESIDE


def lines_of(answer: Answer) -> set[str]:
    return set(answer.predicted)


def error(judged: Judged) -> float:
    return metrics.mean_error(metrics.misses(judged)) or 0.0


def test_the_committed_figures_are_those_of_the_committed_answers() -> None:
    judged = judged_again(result(), RECORDS)
    told = json.loads(json.dumps(figures.table(judged)))
    kept = result()["tools"][OURS]
    if len(judged) == result()["records"]["all"]:
        for name in ("first", "first_three", "false_alarms", "answered", "predicted"):
            assert told[name]["count"] == kept[name]["count"]
        assert told["gains"]["all"]["of"] == kept["gains"]["all"]["of"]
        assert told["regret_mean"] == pytest.approx(kept["regret_mean"], abs=1e-4)


def test_every_account_of_every_record_summed_exactly() -> None:
    assert result()["health"]["inexact"] == 0
