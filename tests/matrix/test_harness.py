"""A matrix that finds nothing must be able to find something: each harm is told by its name."""

import sys
from pathlib import Path

import pytest

from gapless import wire
from tests.matrix import running
from tests.matrix.comparing import RecordedCounts, find_differences, find_missing, read_counts
from tests.matrix.rows import Row

SABOTAGE = (sys.executable, str(Path(__file__).with_name("sabotage.py")))


def find_harm(harm: str, fate: str, folder: Path) -> list[str]:
    row = Row("script", "nothing", fate)
    plain, harmed, _ = running.run_both(row, folder, folder, (*SABOTAGE, harm))
    return find_differences(row, plain, harmed)


@pytest.mark.parametrize("fate", ["end", "error", "sys_exit"])
def test_a_recorder_that_does_no_harm_is_let_pass(fate: str, tmp_path: Path) -> None:
    assert find_harm("none", fate, tmp_path) == []


@pytest.mark.parametrize(
    ("harm", "fate", "says"),
    [
        ("swallows-the-exit-code", "sys_exit", "exit code 0, not 3"),
        ("prints", "end", "stdout goes on: 'a word"),
        ("prints-like-a-report", "end", "stdout goes on: 'gapless: a word"),
        ("complains", "end", "stderr goes on: 'a word"),
        ("complains", "error", "stderr: 'a word"),
        ("draws", "end", 'state-0.txt holds "random '),
        ("writes", "end", "file.txt holds 'a word', not None"),
        ("removes", "end", "state-0.txt holds None, not"),
        ("leaves-a-file", "end", "temporary files ('gapless-…',), not ()"),
        ("starts-a-thread", "end", "Thread-1"),
        ("handles-a-signal", "end", "10 print"),
        ("profiles", "end", "<lambda>"),
        ("filters-warnings", "end", "state-0.txt holds"),
        ("shows-in-tracebacks", "error", "stderr: 'a frame"),
    ],
)
def test_harm_is_found(harm: str, fate: str, says: str, tmp_path: Path) -> None:
    assert says in "\n".join(find_harm(harm, fate, tmp_path))


def test_a_process_that_goes_on_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_LEFT_S", 0.5)
    assert find_harm("leaves-a-process", "end", tmp_path) == [
        "processes that go on: ('sleep',), not ()"
    ]


@pytest.mark.parametrize(
    ("row", "counts", "n_faults"),
    [
        (Row("", "", steps=3), RecordedCounts(steps=3), 0),
        (Row("", "", steps=3), RecordedCounts(steps=2), 1),
        (Row("", "", steps=3), RecordedCounts(steps=4), 1),
        (Row("", "", steps=3, cut=True), RecordedCounts(steps=4, cut=("rank0.log",)), 0),
        (Row("", "", steps=3, cut=True), RecordedCounts(steps=2), 1),
        (Row("", "", batches=1), RecordedCounts(), 1),
        (Row("", "", windows=1), RecordedCounts(), 1),
        (Row("", ""), RecordedCounts(cut=("rank0.log",)), 1),
        (
            Row("", "", why="-I"),
            RecordedCounts(unobserved={"training": "Python was started with -I"}),
            0,
        ),
        (Row("", "", why="-I"), RecordedCounts(unobserved={"gpu": "-I"}), 1),
    ],
)
def test_what_was_not_recorded_is_found(row: Row, counts: RecordedCounts, n_faults: int) -> None:
    assert len(find_missing(row, counts)) == n_faults


def test_what_was_recorded_is_counted(tmp_path: Path) -> None:
    marks = [
        (wire.STEP, 0, 0, 1, 2, 3, 0),
        (wire.NEXT, 0, 0, 1, 2, 3, 0),
        (wire.NEXT, wire.EXHAUSTED, 0, 1, 2, 3, 1),
        (wire.ITER, 0, 0, 1, 2, 3, 0),
    ]
    log = wire.frame(wire.MARKS, b"".join(wire.MARK.pack(*mark) for mark in marks))
    for path in (None, "windows/a.json"):
        log += wire.text_frame(wire.WINDOW, {"path": path})
    log += wire.text_frame(
        wire.UNOBSERVED, {"what": "training", "why": "for some reason", "count": 1}
    )
    for folder, length in (("run", len(log)), ("spool", len(log)), ("other", len(log) - 1)):
        (tmp_path / folder).mkdir()
        name = "rank1.log" if folder == "other" else "rank0.log"
        (tmp_path / folder / name).write_bytes(log[:length])
    counts_once = RecordedCounts(1, 1, 1, (), {"training": "for some reason"})
    assert read_counts(tmp_path / "run", tmp_path / "spool") == counts_once
    assert read_counts(tmp_path / "other", tmp_path / "nowhere") == RecordedCounts(
        1, 1, 1, ("rank1.log",)
    )
