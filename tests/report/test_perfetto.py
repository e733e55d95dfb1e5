"""A window for Perfetto's viewer: the account's bars named by cause, nothing lost of it."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from gapless.cli import main
from gapless.report.documents.perfetto import perfetto_json
from gapless.study import Options, open_study

DATA: Final = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def events() -> list[dict[str, Any]]:
    study = open_study(
        [DATA / "loader_workers.json.gz"], Options(cache=False, diagnose=False, pictured=True)
    )
    assert study.picture is not None
    return json.loads(perfetto_json(study.picture))["traceEvents"]


def test_bars_of_the_account_sum_to_it_and_are_named_by_cause(
    events: list[dict[str, Any]],
) -> None:
    study = open_study([DATA / "loader_workers.json.gz"], Options(cache=False, diagnose=False))
    bars = [event for event in events if event["ph"] == "X" and event["pid"] == 1]
    sums: dict[str, float] = {}
    for bar in bars:
        leaf = str(bar["args"]["leaf"])
        sums[leaf] = sums.get(leaf, 0) + bar["dur"] * 1000
    for leaf, ns in study.account.leaves.items():
        assert sums[leaf] == pytest.approx(ns)
    assert any(bar["name"].startswith("waiting for data: ") for bar in bars)


def test_every_bar_lies_on_a_named_track(events: list[dict[str, Any]]) -> None:
    named = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    bars = [event for event in events if event["ph"] == "X"]
    assert {(bar["pid"], bar["tid"]) for bar in bars} == named
    assert all(bar["dur"] >= 0 for bar in bars)


def test_the_command_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "it.json"
    trace = str(DATA / "loader_workers.json.gz")
    assert main(["open", trace, "--no-cache", "--perfetto", str(file)]) == 0
    assert str(file) in capsys.readouterr().out
    assert json.loads(file.read_bytes())["traceEvents"]


def test_it_is_no_second_form_beside_another(capsys: pytest.CaptureFixture[str]) -> None:
    trace = str(DATA / "loader_workers.json.gz")
    assert main(["open", trace, "--json", "--perfetto", "it.json"]) == 2
    assert "leave out the other form" in capsys.readouterr().err
