"""Strangers train, their rewritten sources stand, and what was said was said before."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
import torch

from tests.strangers.cases import CASES, command
from tests.strangers.making import TRAININGS, make, rewrite
from tests.zoo.cases import DECOY, HEALTHY, Case

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
SCHEMA = json.loads((ROOT / "docs" / "schema" / "zoo-menu.json").read_text())
RECORDS = sorted(run.parent for run in (FOLDER / "records").glob("*/run.tar.zst"))
MEASURED = [record for record in RECORDS if (record / "menu.json").exists()]
MIN_CASES = 12
MAX_BYTES = 500_000
each_case = pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
CASE_PARAMS = [
    pytest.param(case, marks=[pytest.mark.slow] if index % 8 else [], id=case.name)
    for index, case in enumerate(CASES.values())
]


def test_there_are_enough_and_a_third_are_sound() -> None:
    assert len(CASES) >= MIN_CASES
    sound = [case for case in CASES.values() if case.kind in (HEALTHY, DECOY)]
    assert len(sound) >= len(CASES) / 3
    assert {case.family for case in CASES.values()} == {
        path.stem for path in TRAININGS.glob("*.py")
    }


@each_case
def test_what_is_rewritten_stands_in_the_source_once_and_is_python(case: Case) -> None:
    text = (TRAININGS / f"{case.family}.py").read_text()
    variants = {choice.variant for choice in case.menu} - {None}
    assert variants == set(case.without)
    for replacements in case.without.values():
        assert ast.dump(ast.parse(rewrite(text, replacements))) != ast.dump(ast.parse(text))


def test_what_is_not_there_is_not_rewritten() -> None:
    with pytest.raises(ValueError, match="0 times"):
        rewrite("a = 1", {"b": "c"})
    with pytest.raises(ValueError, match="2 times"):
        rewrite("a = a", {"a": "c"})


@each_case
def test_a_stranger_knows_nothing_of_this_project(case: Case) -> None:
    text = (TRAININGS / f"{case.family}.py").read_text()
    assert "gapless" not in text
    assert "tests" not in text


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")
@pytest.mark.parametrize("case", CASE_PARAMS)
def test_each_stranger_can_be_stepped_and_left(case: Case) -> None:
    main = sys.modules["__main__"]
    for variant in (None, *case.without):
        job = make(case, "cpu", variant)
        training = job.train(job)
        for _ in range(3):
            next(training)
        training.close()
    assert sys.modules["__main__"] is main


@pytest.mark.slow
def test_a_stranger_is_a_plain_training() -> None:
    line = [sys.executable, *command(CASES["translation"])[:1], "--updates", "3"]
    process = subprocess.run(
        line, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_a_record_is_small_and_answered_before_it_is_measured(record: Path) -> None:
    assert record.name in CASES
    assert (record / "run.tar.zst").stat().st_size <= MAX_BYTES
    if (record / "menu.json").exists():
        answer = json.loads((record / "answer.json").read_text())
        assert answer["thresholds"]


@pytest.mark.parametrize("record", MEASURED, ids=lambda record: record.name)
def test_a_menu_is_as_the_zoos_are(record: Path) -> None:
    menu = json.loads((record / "menu.json").read_text())
    jsonschema.validate(menu, SCHEMA)
    assert menu["case"] == record.name
