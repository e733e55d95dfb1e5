"""``gapless watch`` and ``gapless attach``: what is watched, and what is refused."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gapless import cli
from gapless.commands import watch
from gapless.screen import once
from tests.live.growing import GrowingRun


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in an empty folder, 100 columns wide; two looks follow one another soon."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(once, "_BETWEEN_LOOKS_S", 0.1)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path / ".gapless" / "runs"


def read_view(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)["view"]


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.main(list(arguments)) == 2
    return capsys.readouterr().err


def test_without_a_run_it_is_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["watch", "--once", "--json"]) == 0
    view = read_view(capsys)
    assert view["run"] is None
    assert view["machine"]["cpu.total"] > 0
    assert view["processors"] == os.cpu_count()
    assert "cpu.tree" not in view["machine"]


def test_the_run_that_goes_on_is_watched(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    growing, over = GrowingRun(project / "2026-a"), GrowingRun(project / "2026-b")
    for run in (growing, over):
        run.begin()
        run.grow(60)
    over.end()
    assert cli.main(["watch", "--once"]) == 0
    text = capsys.readouterr().out
    assert "2026-a · running" in text
    assert "75 % of each step the training thread waits for data" in " ".join(text.split())
    assert cli.main(["watch", "2026-b", "--once", "--json"]) == 0
    run = read_view(capsys)["run"]
    assert (run["status"], run["exit_code"], run["steps"]) == ("finished", 0, 60)
    assert cli.main(["watch", "--machine", "--once", "--json"]) == 0
    assert read_view(capsys)["run"] is None


def test_without_a_terminal_it_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert "this is no terminal; gapless watch --once prints" in refusal(capsys, "watch")


def test_options_that_contradict_one_another(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--json prints one moment; add --once" in refusal(capsys, "watch", "--json")
    assert "leave out RUN or --machine" in refusal(capsys, "watch", "last", "--machine", "--once")


def test_a_run_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert "there are no runs in" in refusal(capsys, "watch", "2026", "--once")


def test_without_textual_the_command_that_installs_it_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(watch, "_check_form", vars)  # as if this were a terminal
    monkeypatch.delitem(sys.modules, "gapless.screen.app", raising=False)
    monkeypatch.setitem(sys.modules, "textual", None)
    assert "pip install 'gapless[watch]'" in refusal(capsys, "watch", "--machine")


def test_a_process_is_attached_to(capsys: pytest.CaptureFixture[str]) -> None:
    code = "import time; time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        pid, seconds = str(process.pid), ["--seconds", "0.5"]
        try:
            assert cli.main(["attach", pid, *seconds, "--json"]) == 0
            attached = json.loads(capsys.readouterr().out)["attached"]
            assert cli.main(["attach", pid, *seconds]) == 0
        finally:
            process.kill()
    assert (attached["pid"], attached["main"]["thread"]["looks"] > 2) == (process.pid, True)
    text = capsys.readouterr().out
    assert "there is no step time here" in " ".join(text.split())
    assert text.splitlines()[-1].startswith("exact   ")


def test_what_cannot_be_attached_to(capsys: pytest.CaptureFixture[str]) -> None:
    assert "is not a positive number" in refusal(capsys, "attach", "train.py")
    assert "there is no process 99999999" in refusal(capsys, "attach", "99999999")
    assert "is not a duration" in refusal(capsys, "attach", "1", "--seconds", "soon")
