"""``gapless runs``: what it prints, as text and as JSON, and what it refuses."""

import json
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from gapless import cli, wire
from gapless.store.run.recordings import finish
from tests.store import drawing

NOW = 1_800_000_000_000_000_000


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with two runs, and stand in it, at one time, 100 columns wide."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "time", lambda: NOW / 1e9)
    monkeypatch.setenv("COLUMNS", "100")
    runs_folder = tmp_path / ".gapless" / "runs"
    worker = [drawing.process(9, "worker", worker=1), drawing.batches(drawing.batch(1, 2))]
    logs = {
        "rank0.log": b"".join(drawing.training()),
        "rank0-worker1.log": b"".join(worker),
        "samples.log": drawing.sample(5, **{"cpu.total": 150})
        + wire.text_frame(wire.UNOBSERVED, {"what": "gpu", "why": "no NVML"}),
    }
    start_ns = NOW - 300 * 10**9
    finish(
        drawing.write_run(runs_folder / "2026-a", logs, ended=41_001_000, started_unix_ns=start_ns)
    )
    evil_command = ["python", "\x1b[31mtrain.py", "--" + "x" * 200, "\udcff"]
    evil_run = {"command": evil_command, "status": "failed", "exit_code": 3}
    drawing.write_run(runs_folder / "2026-b", {}, started_unix_ns=NOW, **evil_run)
    return tmp_path


def run(*arguments: str) -> int:
    return cli.main(["runs", *arguments])


def read_lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    out, err = capsys.readouterr()
    assert err == ""
    return out.splitlines()


@pytest.mark.parametrize("arguments", [[], ["list"]])
def test_runs_are_listed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 0
    head, second_line, first_line, total = read_lines(capsys)
    assert head.split() == ["id", "when", "status", "exit", "steps", "step", "size", "command"]
    assert second_line.split()[:8] == ["2026-b", "0", "s", "ago", "failed", "3", "–", "–"]
    assert len(second_line) == 100
    assert "\x1b" not in second_line
    assert first_line.split()[:6] == ["2026-a", "5", "min", "ago", "finished", "0"]
    assert first_line.split()[6:9] == ["2", "10.00", "µs"]
    assert first_line.endswith("python train.py")
    assert total.startswith("2 runs, ")
    assert total.endswith(str(Path(".gapless") / "runs"))


def test_when_a_run_began_whose_manifest_is_lost_is_not_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (Path(".gapless") / "runs" / "2026-a" / "run.json").unlink()
    assert run("list") == 0
    lost = next(line for line in read_lines(capsys) if line.startswith("2026-a"))
    assert lost.split()[:3] == ["2026-a", "–", "killed"]


def test_one_run_is_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    size = Path(".gapless/runs/2026-b/run.json").stat().st_size
    assert run("delete", "2026-b") == 0
    assert read_lines(capsys) == [f"deleted 2026-b: {size} B"]
    run()
    assert read_lines(capsys)[-1].startswith("1 run, ")


def test_a_folder_without_runs_says_so(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--in", str(project / "none")) == 0
    assert read_lines(capsys) == [f"no runs in {project / 'none'}; gapless run COMMAND makes one"]


def test_the_list_is_one_json_object(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--json") == 0
    (line,) = read_lines(capsys)
    assert line.isascii()
    document = json.loads(line)
    assert (document["schema"], document["folder"]) == (1, str(project / ".gapless" / "runs"))
    assert document["bytes"] == sum(entry["bytes"] for entry in document["runs"])
    second_entry, first_entry = document["runs"]
    assert (second_entry["id"], second_entry["exit_code"], second_entry["steps"]) == (
        "2026-b",
        3,
        None,
    )
    assert second_entry["command"][-1] == "\udcff"
    assert (first_entry["steps"], first_entry["step_ns"], first_entry["wall_ns"]) == (
        2,
        10_000,
        41_000_000,
    )
    assert run("list", "--json") == 0
    assert read_lines(capsys) == [line]


def test_a_run_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", "2026-a") == 0
    text = "\n".join(read_lines(capsys))
    assert "  command   python train.py\n" in text
    start_text = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(NOW / 1e9 - 300))
    assert f"  began     {start_text}, took 41.00 ms; finished with exit code 0\n" in text
    assert "  steps     2 of 10.00 µs in the mean\n" in text
    assert "  workers   1 process of rank 0: 1 batch; 1 killed, or still there\n" in text
    assert "  process   training of rank 0, 7: 4 marks, 1 batch\n" in text
    assert "  sampled   cpu.total\n" in text
    assert text.endswith("  not seen  gpu: no NVML\n  not seen  schedstat: no such file (2 times)")


def test_records_that_were_added_up_are_counted(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = {
        "rank0.log": drawing.process()
        + drawing.marks(drawing.step(0, 1, 2))
        + drawing.mark_sums((wire.STEP, 0, 0, 11, 2, 90, 30, 60, 2, -1))
        + drawing.batch_sums(drawing.batch_sum(3, 80)),
    }
    finish(drawing.write_run(project / ".gapless/runs/2026-c", logs, started_unix_ns=NOW))
    assert run("show", "2026-c") == 0
    assert "  process   training of rank 0, 7: 31 marks, 9 batches" in "\n".join(read_lines(capsys))


def test_a_run_without_its_database_gets_one_when_it_is_shown(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("show", "last") == 0
    assert "  steps     –\n" in "\n".join(read_lines(capsys)) + "\n"
    path = project / ".gapless" / "runs" / "2026-b" / "run.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT exit_code FROM run").fetchall() == [(3,)]


def test_a_run_is_shown_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", "2026-a", "--json") == 0
    document = json.loads(read_lines(capsys)[0])
    assert document["run"]["id"] == "2026-a"
    assert document["manifest"]["host"] == "host"
    assert [process["pid"] for process in document["processes"]] == [9, 7]
    assert document["series"] == ["cpu.total"]
    assert {gap["what"] for gap in document["unseen"]} == {"gpu", "schedstat"}


def test_a_time_that_no_calendar_has_is_unknown(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs_folder = project / ".gapless" / "runs"
    drawing.write_run(runs_folder / "2026-c", {}, started_unix_ns=(1 << 63) - 1, ended=None)
    assert run("show", "2026-c") == 0
    assert "  began     " in "\n".join(read_lines(capsys))


def test_several_runs_are_deleted_or_none(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("delete", "2026-a", "gone") == 2
    assert "there is no run 'gone'" in capsys.readouterr().err
    running = {"status": "running", "launcher": os.getpid(), "host": ""}
    drawing.write_run(project / ".gapless" / "runs" / "2026-r", {"rank0.log": b""}, **running)
    os.utime(
        project / ".gapless" / "runs" / "2026-r" / "logs" / "rank0.log", (NOW / 1e9, NOW / 1e9)
    )
    assert run("delete", "2026-a", "2026-r") == 2
    assert "2026-r goes on; end it first" in capsys.readouterr().err
    assert run("delete", "2026-a", "2026-r", "2026-a", "--force", "--json") == 0
    document = json.loads(read_lines(capsys)[0])
    assert sorted(document["deleted"]) == ["2026-a", "2026-r"]


def test_only_runs_of_the_folder_are_deleted(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = project / ".gapless" / "runs" / "2026-a"
    assert run("delete", str(path)) == 2
    assert path.exists()
    assert "there is no run" in capsys.readouterr().err
    assert run("show", str(path)) == 0


def test_a_packed_run_is_listed_and_comes_back(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    windows = project / ".gapless" / "runs" / "2026-a" / "windows"
    windows.mkdir()
    (windows / "rank0-step1.json.gz").write_bytes(b"no gzip")
    assert run("pack", "2026-a") == 0
    *members, damaged_line, total = read_lines(capsys)
    assert [line.split()[-1] for line in members] == [
        "run.json",
        "logs/rank0-worker1.log",
        "logs/rank0.log",
        "logs/samples.log",
    ]
    assert damaged_line.endswith("windows/rank0-step1.json.gz: left out")
    assert total.endswith("2026-a.tar.zst; ~ stands for your home folder in it")
    assert run("unpack", "2026-a.tar.zst", "--in", "there") == 0
    _, line, path = read_lines(capsys)
    assert line.startswith("2026-a")
    assert path == f"unpacked to {Path('there') / '2026-a'}"
    assert run("pack", "2026-a", "-o", "x.zip", "--json") == 0
    document = json.loads(read_lines(capsys)[0])
    assert (document["path"], document["left_out"]) == ("x.zip", ["windows/rank0-step1.json.gz"])
    assert document["bytes"] == (project / "x.zip").stat().st_size
    assert run("unpack", "x.zip", "--in", "there") == 2
    assert "(gapless explain run-folder)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show"], "ID"),
        (["show", "x"], "there is no run 'x'"),
        (["show", "2026"], "'2026' are 2 runs"),
        (["delete"], "ID"),
        (["pack", "last", "-o", "x.rar"], "ends in neither"),
        (["unpack", "gone.zip"], "is no file"),
        (["nonsense"], "invalid choice: 'nonsense'"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
    assert "(gapless explain " in err
