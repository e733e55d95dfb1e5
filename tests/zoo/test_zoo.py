"""The zoo: its trainings train, its menus are edits, its records can be replayed anywhere."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch
from msgspec.structs import replace

from gapless.catalogue.declare.listing import find_fix
from gapless.model.edit import edit_from_json, edit_to_json
from gapless.model.study import Study
from gapless.store.run.unpack import unpack
from gapless.study import open_run
from tests.zoo.cases import CASES, DECOY, HEALTHY, Case
from tests.zoo.later_cases import LATER_CASES
from tests.zoo.making import make

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
SCHEMA = json.loads((ROOT / "docs" / "schema" / "zoo-menu.json").read_text())
RECORDS = sorted(menu.parent for menu in (FOLDER / "records").glob("*/menu.json"))
MAX_BYTES = 500_000
IN_WORKERS = {"worker-threads"}  # these take effect, and are counted, where nobody asks
SMALL = [case for case in CASES.values() if case.size == "c"]
SINGLE_RANK = [case for case in SMALL if case.ranks == 1]
# Workers that compute on many threads hang where OpenMP ran before the fork: in a fresh process.
FRESH_PROCESS = [case for case in SINGLE_RANK if case.options.get("worker_threads")]
SAME_PROCESS = [case for case in SINGLE_RANK if case not in FRESH_PROCESS]
SLOW_OPTIONS = {"workers", "persistent", "compiled"}  # options that take longer than they tell
GPU_CASES = [case for case in LATER_CASES if case.size == "g"]
LATER_NAMES = {case.name for case in LATER_CASES}
MULTI_RANK = [case for case in SMALL if case.ranks > 1]
each_case = pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
each_record = pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)


RECORD_PARAMS = [
    pytest.param(record, marks=[pytest.mark.slow] if index % 9 else [])
    for index, record in enumerate(RECORDS)
]


CASE_PARAMS = [
    pytest.param(case, marks=[pytest.mark.slow] if case.name in LATER_NAMES else [])
    for case in SAME_PROCESS
]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Let small trainings compute on one thread: beside other tests, two are slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def menu_of(record: Path) -> dict[str, Any]:
    return json.loads((record / "menu.json").read_text())


@each_case
def test_a_menu_holds_at_most_five_changes_each_of_which_can_be_made(case: Case) -> None:
    assert 2 <= len(case.menu) <= 5
    assert len({choice.name for choice in case.menu}) == len(case.menu)
    for choice in case.menu:
        assert bool(choice.edits) != (choice.variant is not None)
        for edit in choice.edits:
            assert edit_to_json(edit_from_json(edit))["kind"] == edit["kind"]
        if choice.fix is not None:
            assert find_fix(choice.fix.partition("=")[0])
        if choice.variant is not None:
            changed = case.variant(choice.variant)
            assert changed
            assert {**case.options, **changed} != dict(case.options)


@each_case
def test_what_a_case_plants_is_what_its_kind_says(case: Case) -> None:
    assert (case.kind == "compound") == (len(case.planted) > 1 and case.kind != DECOY)
    assert (case.kind == HEALTHY) <= (len(case.planted) == 0 or "item" in case.planted[0])


def test_a_third_of_the_cases_are_sound_and_a_fifth_have_several_faults() -> None:
    for size, min_cases in (("c", 20), ("g", 14)):
        cases = [case for case in CASES.values() if case.size == size]
        kinds = Counter(case.kind for case in cases)
        assert len(cases) >= min_cases
        assert kinds[HEALTHY] + kinds[DECOY] >= 0.3 * len(cases)
        assert kinds["compound"] >= 0.2 * len(cases)
        assert len({case.family for case in cases}) >= 6


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("case", CASE_PARAMS, ids=lambda case: case.name)
def test_each_case_trains(case: Case) -> None:
    for module in case.needs:
        pytest.importorskip(module)
    job = make(case, "cpu")
    before = [weight.detach().clone() for weight in job.model.parameters()]
    training = job.train(job)
    for _ in range(3):
        next(training)
    training.close()
    after = list(job.model.parameters())
    assert any(not torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert all(bool(torch.isfinite(new).all()) for new in after)


@pytest.mark.slow
@pytest.mark.parametrize("case", MULTI_RANK, ids=lambda case: case.name)
def test_each_case_of_two_ranks_trains(case: Case) -> None:
    start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(case.ranks)]
    line = [*start, "tests/zoo/run.py", case.name, "--steps", "3"]
    process = subprocess.run(
        line, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.count("3 steps in") == case.ranks


@pytest.mark.parametrize(
    "name",
    [
        "control-by-design-c",
        *(pytest.param(case.name, marks=pytest.mark.slow) for case in FRESH_PROCESS),
    ],
)
def test_a_case_is_a_plain_training(name: str) -> None:
    line = [sys.executable, "tests/zoo/run.py", name, "--steps", "3"]
    process = subprocess.run(
        line, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("3 steps in")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("case", SAME_PROCESS, ids=lambda case: case.name)
def test_each_variant_trains(case: Case) -> None:
    for module in case.needs:
        pytest.importorskip(module)
    for name in case.without:
        job = make(case, "cpu", name)
        training = job.train(job)
        next(training)
        training.close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("case", GPU_CASES, ids=lambda case: case.name)
def test_a_case_for_a_gpu_trains_on_processors_too_if_it_is_small(case: Case) -> None:
    left_out = {*import_module(f"tests.zoo.families.{case.family}").SIZES["c"], *SLOW_OPTIONS}
    options = {name: value for name, value in case.options.items() if name not in left_out}
    small = replace(case, size="c", options=options)
    for variant in (None, *case.without):
        training = (job := make(small, "cpu", variant)).train(job)
        for _ in range(2):
            next(training)
        training.close()


@each_record
def test_a_record_is_small_whole_and_of_a_case_that_there_is(record: Path) -> None:
    menu = menu_of(record)
    jsonschema.validate(menu, SCHEMA)
    assert menu["case"] == record.name
    assert record.name in CASES
    assert (record / menu["run"]).stat().st_size <= MAX_BYTES
    assert sum(path.stat().st_size for path in record.iterdir()) <= MAX_BYTES + 100_000
    assert str(ROOT) not in (record / "menu.json").read_text()


@each_record
def test_a_records_gains_have_intervals(record: Path) -> None:
    menu = menu_of(record)
    measured = [line for line in menu["menu"] if line["speedup"] is not None]
    assert len(measured) >= 2
    for line in measured:
        speedup = line["speedup"]
        assert 0 < speedup["low"] <= speedup["mid"] <= speedup["high"]
        assert line["smallest_seen"] > 0
        if line["edits"] and not any(edit.get("part") in IN_WORKERS for edit in line["edits"]):
            assert max(line["took_effect"]) > 0
    for line in menu["menu"]:
        assert (line["speedup"] is None) == (line["failed"] is not None)


@pytest.mark.parametrize("record", RECORD_PARAMS, ids=lambda record: record.name)
def test_a_record_can_be_replayed_without_its_machine(record: Path, tmp_path: Path) -> None:
    study = study_of(record, tmp_path)
    assert study.recorded is not None
    assert study.recorded.steps is not None
    timeline = study.recorded.timeline
    assert sum(timeline.leaves.values()) == timeline.wall_ns
    if study.recorded.account is not None:
        account = study.recorded.account.account
        assert sum(account.groups.values()) == sum(account.leaves.values())
    shutil.rmtree(tmp_path)


def study_of(record: Path, folder: Path) -> Study:
    return open_run(unpack(record / menu_of(record)["run"], folder))


@pytest.mark.skipif(len(RECORDS) < 20, reason="the zoo is being measured")
def test_a_third_of_the_records_are_of_sound_trainings() -> None:
    kinds = Counter(menu_of(record)["kind"] for record in RECORDS)
    assert kinds[HEALTHY] + kinds[DECOY] >= 0.3 * len(RECORDS)
