"""Which forward passes of real steps are said to be used by nothing: graphs as torch makes them."""

import subprocess
import sys
from pathlib import Path

import pytest

import gapless
from gapless.accounting.host.threads import sort_threads
from gapless.accounting.host.unused_forwards import find_unused_passes
from gapless.formats import read
from gapless.model.study import UNUSED, UNUSED_FIRST
from tests.study.train_with_passes import STEPS, UNUSED_PASSES, USED_PASSES

SCRIPT = Path(__file__).with_name("train_with_passes.py")


@pytest.fixture(scope="module")
def trace_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record all kinds of steps."""
    folder = tmp_path_factory.mktemp("passes")
    command = [sys.executable, str(SCRIPT), str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder


def count(path: Path) -> int:
    return len(find_unused_passes(sort_threads(read(path))))


def test_passes_that_were_left_are_found_and_no_others(trace_folder: Path) -> None:
    counts = {
        loss.__name__: count(trace_folder / f"{loss.__name__}.json")
        for loss in (*UNUSED_PASSES, *USED_PASSES)
    }
    assert counts == {
        loss.__name__: STEPS if loss in UNUSED_PASSES else 0
        for loss in (*UNUSED_PASSES, *USED_PASSES)
    }


def test_they_are_told_with_the_function_that_calls_them(trace_folder: Path) -> None:
    study = gapless.open(trace_folder / "stacks.json", cache=False)
    callers = {site.function for site in study.sites if site.name == UNUSED}
    first_modules = {
        (Path(site.file).name, site.function) for site in study.sites if site.name == UNUSED_FIRST
    }
    row = next(operator for operator in study.tables.operators if operator.name == UNUSED)
    assert row.calls == study.account.steps
    assert (callers, first_modules) == ({"left"}, {("container.py", "forward")})
    assert study.diagnosis is not None
    findings = (*study.diagnosis.findings, *study.diagnosis.present)
    assert "unused-forward" in {finding.detection.name for finding in findings}
