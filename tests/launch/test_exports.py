"""Traces that a training's own profiler wrote stand where windows of ours would."""

import gzip
import json
import os
import sys
from pathlib import Path

import pytest
import torch

import gapless
from gapless import cli, wire
from gapless.launch.run import exports
from gapless.launch.unobserved import Journal
from gapless.model.study import Study
from gapless.store.run.recordings import load
from gapless.study import open_run
from tests.launch import starting
from tests.payload.loop_shapes import DATA, train_over  # pyright: ignore[reportUnknownVariableType]

SCRIPT = Path(__file__).with_name("profiling.py")


def run_profiled(
    mode: str, cwd: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[Study, str]:
    """Run a training that profiles itself; give the study of the run and the page at its end."""
    process = starting.run((sys.executable, str(SCRIPT), mode), cwd)
    assert process.returncode == 0, process.stderr
    folder = starting.run_folder(cwd)
    monkeypatch.chdir(cwd)
    assert cli.main(["report", "--full", str(folder)]) == 0
    return open_run(folder), " ".join(capsys.readouterr().out.split())


def test_a_scheduled_profiler_for_tensorboard_gives_the_account_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study, page = run_profiled("schedule", tmp_path, monkeypatch, capsys)
    recorded = study.recorded
    assert recorded is not None
    trace_paths = {str(path) for path in (tmp_path / "traces").iterdir()}
    assert set(recorded.adopted) == trace_paths
    assert len(trace_paths) == 2
    assert recorded.account is not None
    assert recorded.account.refined_by == 6  # two captures of four steps, each without its first
    assert any(row.name == "aten::addmm" for row in study.tables.operators)
    assert any(row.file.endswith(SCRIPT.name) for row in study.tables.lines)
    assert "6 steps that its own profiler recorded" in page
    assert f"wrote: traces/{Path(recorded.adopted[0]).name} (and 1 more)" in page
    assert "no window" not in page


def test_an_exported_trace_gives_the_account_and_the_users_file_is_only_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study, page = run_profiled("export", tmp_path, monkeypatch, capsys)
    trace_path = tmp_path / "trace.json"
    recorded = study.recorded
    assert recorded is not None
    assert recorded.adopted == (str(trace_path),)
    assert recorded.account is not None
    assert recorded.account.refined_by > 0
    assert "from the trace that the training's own profiler wrote: trace.json" in page
    (copy,) = (starting.run_folder(tmp_path) / "windows").iterdir()
    assert copy.name == "rank0-profiler1-trace.json.gz"
    assert gzip.decompress(copy.read_bytes()) == trace_path.read_bytes()
    (adopted,) = load(starting.run_folder(tmp_path)).manifest.adopted
    assert (adopted.source, adopted.path) == (str(trace_path), f"windows/{copy.name}")
    broken = b'{"traceEvents": [1, 2, ' + b"nothing of it" * 10
    copy.write_bytes(gzip.compress(broken))
    recorded_without = open_run(starting.run_folder(tmp_path)).recorded
    assert recorded_without is not None
    assert recorded_without.adopted == ()
    assert [note for note in recorded_without.notes if copy.name in note]


# ── What cannot be adopted ──────────────────────────────────────────────────────────────────────


def make_spool(folder: Path, *logs: list[object]) -> Path:
    """Make a spool whose processes, one a rank, exported these files."""
    spool = folder / "spool"
    spool.mkdir()
    for rank, paths in enumerate(logs):
        frames = [wire.text_frame(wire.PROCESS, {"rank": rank})]
        frames += [wire.frame(wire.MARKS, bytes(wire.MARK.size))]
        body = {"written": [str(path) for path in paths], "kind": "trace"}
        frames += [wire.text_frame(wire.FILES, {"read": {}, "written": ["model.pt"]})]
        frames += [wire.text_frame(wire.FILES, body)]
        (spool / f"rank{rank}.log").write_bytes(b"".join(frames))
    return spool


def adopt(spool: Path, folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return the copies and what was noted."""
    journal = Journal(spool)
    adopted = exports.adopt(spool, folder, journal, lambda _: None)
    reasons = {
        gap.what.partition(",")[0].rpartition("/")[2]: gap.why for gap in journal.list_unobserved()
    }
    assert {trace.path for trace in adopted} == {
        str(path.relative_to(folder)) for path in folder.glob("windows/*")
    }
    return [trace.path for trace in adopted], reasons


def test_what_is_no_trace_is_told_in_a_line_each(tmp_path: Path) -> None:
    trace = json.dumps({"traceEvents": []})
    (tmp_path / "good one.json").write_text(trace)
    (tmp_path / "packed.pt.trace.json.gz").write_bytes(gzip.compress(trace.encode()))
    (tmp_path / "text.json").write_text("no trace at all")
    (tmp_path / "text.json.gz").write_bytes(gzip.compress(b"no trace at all"))
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(b"")[:5])
    (tmp_path / "empty.json").touch()
    (tmp_path / "folder.json").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    names = ("good one.json", "packed.pt.trace.json.gz", "text.json", "text.json.gz", "cut.json.gz")
    paths = [tmp_path / name for name in (*names, "empty.json", "folder.json", "pipe.json", "gone")]
    copies, reasons = adopt(make_spool(tmp_path, [*paths]), tmp_path / "run")
    assert copies == [
        "windows/rank0-profiler1-good_one.json.gz",
        "windows/rank0-profiler2-packed.json.gz",
    ]
    assert reasons == {
        **dict.fromkeys(
            ("text.json", "text.json.gz", "cut.json.gz", "empty.json"), "it is no trace"
        ),
        **dict.fromkeys(("folder.json", "pipe.json"), "it is no file"),
        "gone": "No such file or directory",
    }


def test_there_is_a_limit_to_what_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "LIMIT", 3000)
    for name in ("one", "two", "three", "small"):
        (tmp_path / name).write_text("{" + " " * (100 if name == "small" else 1200))
    (tmp_path / "packed.gz").write_bytes(gzip.compress(os.urandom(600)))
    (tmp_path / "packed.gz").write_bytes(gzip.compress(b"[" + os.urandom(600)))
    paths = [tmp_path / name for name in ("one", "two", "three", "packed.gz", "small")]
    copies, reasons = adopt(make_spool(tmp_path, [*paths]), tmp_path / "run")
    assert [Path(copy).name.partition("-")[2] for copy in copies] == [
        "profiler1-one.json.gz",
        "profiler2-two.json.gz",
        "profiler3-small.json.gz",
    ]
    assert set(reasons) == {"three", "packed.gz"}
    assert all("limit" in why for why in reasons.values())


def test_many_that_are_missing_are_told_shortly(tmp_path: Path) -> None:
    spool = make_spool(tmp_path, [tmp_path / f"gone{number}" for number in range(20)])
    copies, reasons = adopt(spool, tmp_path / "run")
    assert copies == []
    assert len(reasons) == 9
    assert reasons["traces of the training's own profiler"] == "12 more were not adopted"


def test_a_file_that_several_ranks_wrote_is_copied_once_and_named_after_none(
    tmp_path: Path,
) -> None:
    (tmp_path / "trace.json").write_text("{}")
    (tmp_path / "other.json").write_text("{}")
    shared_path, own_path = tmp_path / "trace.json", tmp_path / "other.json"
    copies, reasons = adopt(
        make_spool(tmp_path, [shared_path], [shared_path, own_path]), tmp_path / "run"
    )
    assert copies == [
        "windows/ranks-profiler1-trace.json.gz",
        "windows/rank1-profiler2-other.json.gz",
    ]
    assert reasons == {}


def test_a_block_that_profiles_itself_is_adopted_too(tmp_path: Path) -> None:
    trace_path = tmp_path / "own.json"
    with gapless.record(tmp_path / "runs") as run:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            train_over(torch.utils.data.DataLoader(DATA, 6), epochs=2)
        profiler.export_chrome_trace(str(trace_path))
    recorded = open_run(run).recorded
    assert recorded is not None
    assert recorded.adopted == (str(trace_path),)
    assert recorded.account is not None
    assert recorded.account.refined_by > 0
