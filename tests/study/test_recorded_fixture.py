"""A run recorded on a GPU, read again: the story that it tells must not change."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import asdict, replace

import gapless
from gapless.capture.reading import read_trace
from gapless.model import category
from gapless.model.trace import Events
from gapless.report.run.page import print_run
from gapless.store import columns
from gapless.study import open_run
from tests.traces import recorded_run

WORK = (*category.ACTIVITIES, category.GPU_USER_ANNOTATION)


def test_the_reference_story_is_told() -> None:
    study = gapless.open(recorded_run())
    recorded = study.recorded
    assert recorded is not None
    assert recorded.steps is not None
    assert recorded.steps.rule == "optimizer"
    assert recorded.account is not None
    account = recorded.account.account
    groups = account.groups
    total_ns = sum(groups.values())
    assert groups["data"] / total_ns == pytest.approx(0.815, abs=0.002)
    assert groups["compute"] / total_ns == pytest.approx(0.150, abs=0.002)
    assert groups["observer"] / total_ns < 0.001
    stages = {leaf: ns for leaf, ns in account.leaves.items() if ".data." in leaf}
    top_stages = sorted(stages, key=lambda leaf: -stages[leaf])[:2]
    assert set(top_stages) == {"idle.data.augment", "idle.data.decode"}


def test_its_rows_sum_to_the_life_of_the_process() -> None:
    study = open_run(recorded_run())
    assert study.recorded is not None
    timeline = study.recorded.timeline
    assert sum(timeline.leaves.values()) == timeline.wall_ns


def test_its_page_names_the_loader_and_what_it_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    print_run(open_run(recorded_run()))
    page = capsys.readouterr().err
    assert "60 steps of" in page
    assert "NVIDIA H200" in page
    assert "pictures.py:61" in page
    assert "num_workers=0" in page
    assert json.loads((recorded_run() / "run.json").read_text())["exit_code"] == 0


def test_a_window_without_what_its_steps_launched_parts_no_step(tmp_path: Path) -> None:
    """As if the device had been so far behind that it did none of it while the window was open."""
    run = tmp_path / recorded_run().name
    shutil.copytree(recorded_run(), run)
    (window,) = (run / "windows").iterdir()
    trace = read_trace(window)
    is_host = ~np.isin(trace.events.category, WORK)
    events = {name: column[is_host] for name, column in asdict(trace.events).items()}
    window.write_bytes(columns.encode_trace(replace(trace, events=Events(**events))))
    recorded = open_run(run).recorded
    assert recorded is not None
    assert recorded.account is not None
    account = recorded.account.account
    assert not recorded.account.on_device
    assert account.leaves["step"] > 0  # what no window parts
    assert not any(leaf.startswith(("busy.", "idle.host")) for leaf in account.leaves)
    assert sum(account.leaves.values()) == account.wall_ns
    assert any("the device was so far behind" in note for note in recorded.notes)
