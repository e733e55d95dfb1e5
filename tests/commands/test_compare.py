"""gapless compare, of recorded runs."""

import json
from pathlib import Path

import pytest

from gapless import cli
from tests.traces import recorded_run


def compare(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.main(["compare", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_run_and_itself_differ_in_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    runs, name = recorded_run().parent, recorded_run().name
    code, out, _ = compare(capsys, "--json", "--in", str(runs), name[:12], "last")
    document = json.loads(out)
    assert (code, document["facts"], document["explained"]) == (0, [], {})
    assert document["a"]["run"]["paths"] == [f"{name[:12]} ({name})"]
    assert sum(group["a_ns"] for group in document["groups"]) == document["a"]["step_ns"]
    assert {cause["in_a"] and cause["in_b"] for cause in document["causes"]} == {True}
    assert document["speedup"]["mid"] == 1.0


def test_the_folder_of_a_run_is_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = compare(capsys, str(recorded_run()), str(recorded_run().parent))
    assert code == 0
    assert "B is 1.00×" in out
    assert "stays G101 loader-in-training-process pictures.py:61" in out


@pytest.mark.parametrize(
    ("name", "message"),
    [("gone", "gone: no such file"), ("2026-01", "no such file")],
)
def test_what_is_neither_a_run_nor_a_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    code, _, err = compare(capsys, name, name)
    assert code == 2
    assert message in err


def test_a_damaged_packed_run_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    packed = tmp_path / "run.tar.zst"
    packed.write_bytes(b"cut")
    code, _, err = compare(capsys, str(packed), str(packed))
    assert code == 2
    assert "no packed run, or damaged" in err
