"""Files of proven fixes, and of plain edits."""

import json
from pathlib import Path

import pytest

from gapless.errors import UsageError
from gapless.model.edit import Applicability, Location, SetArgument, SetGlobal, edit_to_json
from gapless.model.estimate import Estimate
from gapless.model.tuning import ProvenFix, Tuning
from gapless.store.run.tunings import read_edits, read_tuning, tuning_object, write_tuning

LINE = Location("train.py", 41)
WORKERS = SetArgument("torch.utils.data.DataLoader", "num_workers", 4, LINE)
TF32 = SetGlobal("torch.backends.cuda.matmul.allow_tf32", value=True)
TUNING = Tuning(
    command=("python", "train.py"),
    folder="/data",
    run="2026-11-25T10-00-00-abcd",
    fixes=(
        ProvenFix(
            "more-workers",
            "num_workers 0 → 4 at train.py:41",
            (WORKERS,),
            Applicability.EQUIVALENT,
            Estimate(2.0, 2.5, 3.0),
            location=LINE,
        ),
        ProvenFix("tf32", "TF32 for products", (TF32, WORKERS), Applicability.RISKY),
    ),
    speedup=Estimate(2.4, 2.9, 3.5),
    before_ns=100_000_000,
    after_ns=35_000_000,
)


def test_reads_what_it_wrote(tmp_path: Path) -> None:
    path = tmp_path / "tuned.json"
    write_tuning(TUNING, path)
    assert read_tuning(path) == TUNING
    assert read_edits(path) == (WORKERS, TF32)


def test_reads_a_plain_list_of_edits(tmp_path: Path) -> None:
    path = tmp_path / "edits.json"
    path.write_text(json.dumps([edit_to_json(TF32)]))
    assert read_edits(path) == (TF32,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON document"),
        ("[" * 100_000, "is no JSON document"),
        ("{}", "holds no proven fixes"),
        ('[{"kind": "dance"}]', "holds no edits"),
        ('{"schema": 1, "tuning": {"command": []}}', "not whole"),
    ],
)
def test_refuses_what_holds_no_edits(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "edits.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        read_edits(path)


def test_refuses_a_newer_schema(tmp_path: Path) -> None:
    path = tmp_path / "tuned.json"
    path.write_text(json.dumps({**tuning_object(TUNING), "schema": 99}))
    with pytest.raises(UsageError, match="schema 99"):
        read_tuning(path)


def test_names_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_edits(tmp_path / "edits.json")
