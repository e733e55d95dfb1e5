"""From what the payload wrote to percentiles, intervals, and the screen."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gapless import wire
from gapless.errors import GaplessError, UsageError
from gapless.export import catching, measuring
from gapless.report.model_export import export_lines
from gapless.report.text.console import pen_for
from gapless.verify import in_place

MS = 1e6
WAY: dict[str, Any] = {"files": [], "parity": None, "why": None, "failure": None}


def give(record: in_place.TakeoverRecord) -> Callable[..., in_place.TakeoverRecord]:
    def give_it(*_: object) -> in_place.TakeoverRecord:
        return record

    return give_it


def plan_for(out: Path) -> catching.ExportPlan:
    return catching.ExportPlan(
        command=("python", "train.py"),
        folder=out.parent,
        has_private_view=False,
        formats=("onnx",),
        out=out,
        moment=catching.EVALUATION,
        steps=50,
        seconds=1.0,
    )


def document_of(ways: dict[str, Any], **values: object) -> dict[str, Any]:
    subject: dict[str, Any] = {
        "class": "__main__.Net", "file": "train.py", "line": 4, "parameters": 1234, "ways": ways,
        "dtype": "float32", "device": "cpu", "autocast": None, "batch": 32, "batch_lack": "",
        "inputs": [
            {"name": "x", "dtype": "float32", "shape": [32, 3], "varied": [0], "free": [0]},
            {"name": "labels", "value": "None"},
        ],
    }  # fmt: skip
    return {
        "subject": subject, "series": {}, "absent": {}, "notes": [], "failed": None,
        "complete": True, **values,
    }  # fmt: skip


def screen(document: dict[str, Any], out: Path, width: int = 100) -> str:
    task = measuring.ExportTask(plan_for(out), None)
    export = measuring.build_export(task, document, in_place.TakeoverRecord(document=document))
    pen = pen_for(io.StringIO(), width)
    return "\n".join(line.plain for line in export_lines(export, pen))


def test_a_speedup_is_of_the_same_rounds() -> None:
    eager = [[4 * MS] * 60, [40 * MS] * 60, [400 * MS] * 60]
    cost = measuring.build_cost(
        "8", [[ns / 2 for ns in part] for part in eager], (), eager, is_compared=True
    )
    assert cost.speedup is not None
    assert cost.speedup.low == pytest.approx(2.0)
    assert cost.speedup.high == pytest.approx(2.0)
    assert cost.calls == 180
    assert cost.p99_ns == pytest.approx(200 * MS)
    assert cost.rows_per_s == pytest.approx(8e9 / np.mean([2, 20, 200]) / MS)


def test_few_calls_have_no_slowest_hundredth_and_one_round_no_speedup() -> None:
    cost = measuring.build_cost("as caught", [[MS] * 99], (), [[MS] * 99], is_compared=True)
    assert cost.p99_ns is None
    assert cost.rows_per_s is None  # no batch, no rows
    assert cost.speedup is None


def test_rows_are_of_calls_that_nobody_waited_for_where_there_are_such() -> None:
    cost = measuring.build_cost("10", [[5 * MS]], [[MS]], (), is_compared=False)
    assert cost.rows_per_s == pytest.approx(10_000)
    assert cost.p50_ns == 5 * MS


def test_the_screen_says_what_was_written_and_what_was_refused(tmp_path: Path) -> None:
    failure = {
        "error": "GuardError: no", "construct": "control flow that depends on data",
        "help": "torch.where", "file": "a/train.py", "line": 10, "source": "if x.sum() > 0:",
    }  # fmt: skip
    parity = {
        "within": False, "batch": "8", "output": "output['a']", "dtype": "float32", "share": 0.5,
        "tolerance": 1e-4, "at": [1, 2], "own": 1.0, "other": 1.5,
    }  # fmt: skip
    ways = {
        "eager": WAY,
        "torch-export": WAY | {"files": [["model.pt2", 2048]], "made_s": 2.0, "parity": parity},
        "onnx": WAY | {"failure": failure, "why": "onnx failed"},
        "tensorrt": WAY | {"why": "no GPU"},
    }
    series = {
        size: {"eager": [[4 * MS]] * 3, "torch-export": [[2 * MS]] * 3} for size in ("8", "32", "1")
    }
    absent = {"32": {"aoti": "raised"}, "8": {"torch-export": "left out"}}
    text = screen(document_of(ways, series=series, absent=absent), tmp_path / "out")
    assert "x float32 32*×3; labels = None" in text
    assert "OTHER OUTPUTS" in text
    assert "at [1, 2] 1.5 in place of 1" in text
    assert "onnx refuses the model: control flow that depends on data at train.py:10" in text
    assert "    if x.sum() > 0:" in text
    assert "tensorrt: no GPU" in text
    sizes = [line.split()[0] for line in text.splitlines() if "eager  " in line and "×" not in line]
    assert [size for size in sizes if size.isdecimal()] == ["1", "8", "32"]
    narrow = screen(document_of(ways, series=series), tmp_path / "out", 60)
    assert "2.00×" in narrow
    assert max(map(len, narrow.splitlines())) <= 80


def test_an_interrupted_export_shows_no_files(tmp_path: Path) -> None:
    ways = {"eager": WAY, "onnx": WAY | {"files": [["model.onnx", 9]]}}
    document = document_of(ways, complete=False)
    task = measuring.ExportTask(plan_for(tmp_path / "out"), None)
    record = in_place.TakeoverRecord(document=document, interrupted=True)
    export = measuring.build_export(task, document, record)
    assert not export.is_complete
    assert export.folder is None
    assert export.failed is not None
    assert "nothing was written" in export.failed


def test_what_caught_no_model_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = {
        "subject": {}, "failed": {"slug": "no-model", "why": "none is the model"}, "complete": False
    }  # fmt: skip
    record = in_place.TakeoverRecord(document=document, output="epoch 1\nbye\n")
    monkeypatch.setattr(catching, "run_arm", give(record))
    task = measuring.ExportTask(plan_for(tmp_path / "out"), None)
    with pytest.raises(GaplessError, match="none is the model; it printed last: epoch 1 / bye"):
        measuring.export_model(task, lambda _: None)
    monkeypatch.setattr(catching, "run_arm", give(in_place.TakeoverRecord(interrupted=True)))
    with pytest.raises(KeyboardInterrupt):
        measuring.export_model(task, lambda _: None)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    catching.check_place(tmp_path)  # empty
    (tmp_path / "model.onnx").write_text("")
    with pytest.raises(UsageError, match="nothing is overwritten"):
        catching.check_place(tmp_path)
    with pytest.raises(UsageError, match="there is no folder"):
        catching.check_place(tmp_path / "a/b")


def test_files_are_taken_once_the_document_is_complete(tmp_path: Path) -> None:
    spool, out = tmp_path / "spool", tmp_path / "out"
    (spool / wire.EXPORT_FOLDER).mkdir(parents=True)
    (spool / wire.EXPORT_FOLDER / "model.onnx").write_text("x")
    (spool / wire.EXPORT_FOLDER / "engine.cache").write_text("x")
    taken: list[Path] = []
    record = in_place.TakeoverRecord()
    record.take_files(taken.append)
    (spool / wire.DATA_RESULT).write_text('{"complete": false}')
    record.read(spool)
    assert taken == []
    (spool / wire.DATA_RESULT).write_text('{"complete": true}')
    record.read(spool)
    record.read(spool)
    assert taken == [spool]
    catching.take_files(spool, out)
    assert [path.name for path in out.iterdir()] == ["model.onnx"]
