"""``gapless report``, and ``gapless open`` of a run: from a folder on disk to the page."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import gapless
from gapless import wire
from gapless.cli import main
from gapless.model.recording import Recording
from gapless.store.run import recordings
from gapless.study import Options, study_ended_run
from tests.store.drawing import marks, sample, step, training, window, write_run
from tests.traces import TRACES

MS: Final = 1_000_000


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project's folder of runs, with the project as current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GAPLESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / ".gapless" / "runs"


def long_training_log() -> bytes:
    """Return the log of eleven steps of 10 ms, with a window ``rank0-step1.json``."""
    steps = [step(index, index * 10 * MS - 5, index * 10 * MS) for index in range(4, 15)]
    waits = [
        (wire.NEXT, 0, 0, 11, index * 10 * MS, index * 10 * MS + 4 * MS, index)
        for index in range(4, 14)
    ]
    frames = [*training()[:2], training()[8], marks(*steps, *waits)]
    return b"".join([*frames, wire.text_frame(wire.END, {"ns": 150 * MS, "how": "exit"})])


def test_the_last_run_is_reported(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(runs / "2026-11-20T10-00-00-aaaa", {}, started_unix_ns=1)
    write_run(runs / "2026-11-21T10-00-00-bbbb", {"rank0.log": long_training_log()}, ended=150 * MS)
    assert main(["report"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("gapless · 11 steps of 10.00 ms")
    assert "2026-11-21T10-00-00-bbbb" in out
    assert "4.00 ms  40.0 %" in out
    assert main(["report", "--full"]) == 0
    assert ".gapless/runs/2026-11-21T10-00-00-bbbb" in capsys.readouterr().out
    assert main(["report", str(runs)]) == 0  # a folder of runs: its last
    assert capsys.readouterr().out == out


def test_a_run_that_is_over_is_read_once(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read_folders: list[Path] = []
    load = recordings.load

    def note_load(folder: Path) -> Recording:
        read_folders.append(folder)
        return load(folder)

    monkeypatch.setattr(recordings, "load", note_load)
    run = runs / "2026-11-21T10-00-00-bbbb"
    write_run(run, {"rank0.log": long_training_log()}, ended=150 * MS)
    for arguments in ([], [], ["--no-cache"]):
        assert main(["report", "--json", *arguments]) == 0
    first, again, uncached = capsys.readouterr().out.splitlines()
    assert first == again == uncached
    assert len(read_folders) == 2  # the first time, and without the cache
    (run / "logs" / "rank0.log").write_bytes(long_training_log()[:-9])
    assert main(["report"]) == 0
    assert len(read_folders) == 3


def test_what_the_end_of_a_run_concluded_is_reported(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(runs / "a", {"rank0.log": long_training_log()}, ended=150 * MS)
    study_ended_run(recordings.load(runs / "a"), Options(), lambda _: None)
    monkeypatch.setattr(recordings, "load", None)
    assert main(["report"]) == 0
    assert capsys.readouterr().out.startswith("gapless · 11 steps of 10.00 ms")


def test_a_run_that_goes_on_is_read_each_time(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(runs / "a", {"rank0.log": long_training_log()}, ended=None, status="running")
    cache_folder = runs.parents[1] / "cache"
    assert main(["report"]) == 0
    assert capsys.readouterr().out
    assert not list(cache_folder.glob("*study-*"))


def test_a_report_from_the_cache_imports_no_part_that_concludes(runs: Path) -> None:
    write_run(runs / "a", {"rank0.log": long_training_log()}, ended=150 * MS)
    assert main(["report"]) == 0
    script = (
        "import sys; from gapless.cli import main; main(['report'])\n"
        "print([room for room in ('catalogue', 'recorded', 'pricing', 'replay', 'accounting')"
        " if f'gapless.{room}' in sys.modules])"
    )
    command = [sys.executable, "-c", script]
    process = subprocess.run(command, cwd=runs, capture_output=True, text=True, check=True)
    assert process.stdout.splitlines()[-1] == "[]"


def test_parts_of_a_report_are_asked_for_by_name(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(runs / "a", {"rank0.log": long_training_log()}, ended=150 * MS)
    assert main(["report", "--section", "steps", "--section", "unseen"]) == 0
    assert capsys.readouterr().out.startswith("steps    median 10.00 ms")
    assert main(["report", "--section", "nonsense"]) == 2
    assert "a report has no section 'nonsense'; it has: account, causes" in capsys.readouterr().err


def test_a_run_is_named_by_the_beginning_of_its_id_or_its_folder(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_run(runs / "2026-11-21T10-00-00-bbbb", {"rank0.log": long_training_log()})
    for name in ("2026-11", str(folder)):
        assert main(["report", name, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["run"]["id"] == folder.name
    assert main(["report", "2025"]) == 2
    assert "there is no run '2025'" in capsys.readouterr().err


def test_a_window_parts_the_step(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_run(runs / "a", {"rank0.log": long_training_log()}, ended=150 * MS)
    (folder / "windows").mkdir()
    copy_window("amp_bf16", folder / "windows" / "rank0-step1.json")
    assert main(["report", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    account = report["step_account"]
    assert account["refined_by"] == report["account"]["steps"] > 0
    assert account["on_device"]
    assert "step" not in account["leaves"]
    assert sum(account["leaves"].values()) == account["wall_ns"] == 100 * MS
    assert main(["report", "--full"]) == 0
    assert "operators, a step" in capsys.readouterr().out


def test_a_window_that_cannot_be_read_is_said_and_the_rest_reported(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_run(runs / "a", {"rank0.log": long_training_log()}, ended=150 * MS)
    (folder / "windows").mkdir()
    (folder / "windows" / "rank0-step1.json").write_text("no trace")
    assert main(["report", "--full"]) == 0
    out = capsys.readouterr().out
    assert "a window cannot be read" in out
    assert "the step itself" in out


def test_open_gives_a_runs_study_too(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_run(runs / "a", {"rank0.log": long_training_log()}, ended=150 * MS)
    study = gapless.open(folder)
    assert study.recorded is not None
    assert study.recorded.timeline.wall_ns == sum(study.recorded.timeline.leaves.values())
    assert main(["open", str(folder)]) == 0
    assert capsys.readouterr().out.startswith("gapless · 11 steps of 10.00 ms")


def test_samples_are_drawn_and_paid_for(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = {"gpu0.sm": 50, "gpu0.power": 200}
    samples = b"".join(sample(index * 10 * MS, **values) for index in range(15))
    logs = {"rank0.log": long_training_log(), "samples.log": samples}
    write_run(runs / "a", logs, ended=150 * MS)
    assert main(["report", "--price", "2.5"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "energy 28 J (sampled power), 14 J of it (50 %) while no kernel ran" in out
    assert "(1 GPU at 2.5 an hour)" in out
    assert main(["report", "--section", "machine"]) == 0
    assert "GPU 0 power" in capsys.readouterr().out
    assert main(["report", "--price", "-1"]) == 2


def test_what_no_recording_has_is_refused(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(runs / "a", {"rank0.log": long_training_log()}, ended=150 * MS)
    assert main(["report", "--rank", "7"]) == 2
    assert "there is no rank 7: there are 0" in capsys.readouterr().err
    assert main(["report", "--csv", "nothing"]) == 2


def copy_window(name: str, target: Path) -> None:
    """Copy a recorded trace; its suffix says which form it is kept in."""
    trace = TRACES[name]
    shutil.copy(trace, target.with_suffix(".json" + trace.suffix))


def write_run_with_windows(folder: Path, *names: str) -> Path:
    """Return a run whose windows are recorded traces; from the second on they have stacks."""
    log = long_training_log()
    for number in range(1, len(names)):
        log += window(number + 1, stacks=True)
    run_folder = write_run(folder, {"rank0.log": log}, ended=150 * MS)
    (run_folder / "windows").mkdir()
    for number, name in enumerate(names, 1):
        copy_window(name, run_folder / "windows" / f"rank0-step{number}.json")
    return run_folder


def test_windows_with_stacks_give_lines_and_nothing_else(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run_with_windows(runs / "a", "amp_bf16")
    assert main(["report", "--json"]) == 0
    without_stacks = json.loads(capsys.readouterr().out)
    write_run_with_windows(runs / "b", "amp_bf16", "stacks_memory")
    assert main(["report", "b", "--json"]) == 0
    with_stacks = json.loads(capsys.readouterr().out)
    assert without_stacks["step_account"] == with_stacks["step_account"]
    assert not without_stacks["tables"]["lines"]
    assert with_stacks["tables"]["lines"]
    assert not any("stacks" in note for note in with_stacks["health"]["notes"])


def test_without_samples_cost_goes_by_the_account(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run_with_windows(runs / "a", "amp_bf16")
    assert main(["report", "--price", "2.5", "--markdown"]) == 0
    out = capsys.readouterr().out
    assert "on one NVIDIA H200" in out
    assert "the GPU worked" in out
    assert "while no GPU worked (steps by the account, else idle)" in out
    assert "### Windows" in out


def test_a_selection_of_steps_that_no_window_has_is_refused(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run_with_windows(runs / "a", "amp_bf16")
    assert main(["report", "--steps", "900"]) == 2
    assert "no step of the capture is in '900'" in capsys.readouterr().err
