"""Which forward passes of real steps are said to be used by nothing: graphs as torch makes them."""

import subprocess
import sys
from pathlib import Path

import pytest

import gapless
from gapless.accounting.threads import threads
from gapless.accounting.unused import unused
from gapless.formats import read
from gapless.model.study import UNUSED, UNUSED_FIRST
from tests.study.train_with_passes import FOUND, SILENT, STEPS

SCRIPT = Path(__file__).with_name("train_with_passes.py")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record all kinds of steps."""
    folder = tmp_path_factory.mktemp("passes")
    command = [sys.executable, str(SCRIPT), str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder


def count(path: Path) -> int:
    return len(unused(threads(read(path))))


def test_passes_that_were_left_are_found_and_no_others(recorded: Path) -> None:
    found = {one.__name__: count(recorded / f"{one.__name__}.json") for one in (*FOUND, *SILENT)}
    assert found == {one.__name__: STEPS if one in FOUND else 0 for one in (*FOUND, *SILENT)}


def test_they_are_told_with_the_function_that_calls_them(recorded: Path) -> None:
    study = gapless.open(recorded / "stacks.json", cache=False)
    callers = {one.function for one in study.sites if one.name == UNUSED}
    called = {
        (Path(one.file).name, one.function) for one in study.sites if one.name == UNUSED_FIRST
    }
    row = next(one for one in study.tables.operators if one.name == UNUSED)
    assert row.calls == study.account.steps
    assert (callers, called) == ({"left"}, {("container.py", "forward")})
    assert study.diagnosis is not None
    every = (*study.diagnosis.findings, *study.diagnosis.present)
    assert "unused-forward" in {one.loss.name for one in every}
