"""Trainings of several ranks: what was planted in them is named first, of sound ones nothing."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.jobs import RECORDS, RESULT
from benchmarks.judging.jobs import judge_record, price_run
from gapless.catalogue.declare.listing import propose_named
from gapless.catalogue.rules import RULES
from gapless.pricing.propose import predict_together
from gapless.store.run.unpack import unpack
from tests.jobs.cases import CASES, TRUTHS
from tests.zoo.case import HEALTHY, Case

ROOT = Path(__file__).parents[2]
MAX_BYTES = 70_000
FAST_RECORD = "jobs-slow-disk-c"
FOLDERS = sorted(path.parent for path in RECORDS.glob("*/run.tar.zst"))


def kept_cases() -> dict[str, Any]:
    return json.loads(RESULT.read_text())["cases"]


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_what_must_be_named_is_a_cause_that_there_is(case: Case) -> None:
    truth = TRUTHS[case.name]
    assert {*truth.codes} <= {rule.code for rule in RULES}
    assert (case.kind == HEALTHY) == (not truth.codes)
    assert 1 <= len(case.menu) <= 4


def test_an_option_that_no_training_has_is_refused() -> None:
    from tests.jobs.making import make  # FSDP takes seconds to import, in each process of pytest

    case = next(iter(CASES.values()))
    with pytest.raises(KeyError):
        make(case, "cpu", "no such variant")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_record_is_small_and_of_a_case_that_there_is(folder: Path) -> None:
    assert folder.name in CASES
    assert sum(path.stat().st_size for path in folder.iterdir()) <= MAX_BYTES


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(folder, marks=[] if folder.name == FAST_RECORD else [pytest.mark.slow])
        for folder in FOLDERS
    ],
    ids=lambda folder: folder.name,
)
def test_a_record_is_diagnosed_as_well_as_it_was(folder: Path, tmp_path: Path) -> None:
    kept, answer = kept_cases()[folder.name], judge_record(folder, tmp_path)
    assert answer.first == kept["first"]
    assert answer.is_right >= kept["is_right"]


@pytest.mark.slow
def test_fixes_of_a_loader_are_priced_by_the_rank_that_waits_for_it(tmp_path: Path) -> None:
    prices = price_run(unpack(RECORDS / FAST_RECORD / "run.tar.zst", tmp_path))
    (proposal,) = propose_named("sample-cache", prices.evidence.facts, override=True)
    speedup = predict_together(prices, [proposal]).speedup
    assert speedup is not None
    assert speedup.low > 1.5


def test_most_late_ranks_are_named_first_by_what_makes_them_late() -> None:
    late = [case for name, case in kept_cases().items() if TRUTHS[name].rank is not None]
    assert len(late) >= 3
    assert sum(case["is_right"] for case in late) >= 0.8 * len(late)


def test_of_sound_trainings_nothing_is_named_but_rows_that_are_read_one_by_one() -> None:
    causes = [
        case["first"] for case in kept_cases().values() if case["is_sound"] and case["n_named"]
    ]
    assert all(cause.startswith("G112 ") for cause in causes)  # no sound case does so any longer
    assert len(causes) <= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [case for case in CASES.values() if case.size == "c"], ids=lambda case: case.name
)
def test_each_case_trains(case: Case) -> None:
    start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(case.ranks)]
    line = [*start, "tests/jobs/run.py", case.name, "--steps", "3"]
    process = subprocess.run(
        line, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert process.returncode == 0, process.stderr
