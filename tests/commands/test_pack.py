"""``gapless pack`` on the command line: what it prints, and what it refuses."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from gapless import cli
from gapless.parts import PackedDataset
from tests.house.test_commands_stood_in import commands
from tests.pack.in_process import work_in_process

_SOURCE = """\
import numpy
class Texts:
    def __len__(self): return 3
    def __getitem__(self, index): return {"text": f"record {index}"}
class Waves:
    def __init__(self, split): self.split = split
    def __len__(self): return 3
    def __getitem__(self, index): return numpy.full(4, index), index
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working folder with the sources that the docs name."""
    work_in_process(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    (tmp_path / "data.py").write_text(_SOURCE)
    (tmp_path / "table.csv").write_text("id,text\n1,a\n2,b\n")
    for name in ("cats/a.jpg", "dogs/b.jpg"):
        (tmp_path / "photos" / name).parent.mkdir(parents=True)
        (tmp_path / "photos" / name).write_bytes(b"\xff\xd8")
    return tmp_path


def test_what_was_packed_is_said_and_how_it_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["pack", "photos", "photos.packed", "--verify"]) == 0
    outputs = capsys.readouterr()
    assert outputs.err.startswith(
        "gapless: about 175 B will be written to photos.packed as packed: 2 samples in 1 shard; to "
        "read them takes about "
    )
    lines = outputs.out.splitlines()
    assert lines[0].startswith("packed 2 samples of photos: 80 B in 1 shard of packed, ")
    assert lines[1:6] == [
        "all 2 samples were compared with the source: equal",
        "",
        "read it back, in place of ImageFolder('photos', transform):",
        "  from gapless.parts import PackedDataset",
        "  dataset = PackedDataset('photos.packed', transform=transform)",
    ]
    assert " ".join(lines[6:]) == (
        "or, in a training that was recorded: gapless try --fix packed-data=photos.packed measures "
        "it, gapless fix writes it"
    )


def test_the_result_is_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["pack", "table.csv", "rows.lmdb", "--json"]) == 0
    packed = json.loads(capsys.readouterr().out)["packed"]
    assert (packed["format"], packed["samples"], packed["shards"]) == ("lmdb", 2, 1)
    assert (packed["shards_kept"], packed["samples_verified"]) == (0, None)
    assert packed["bytes"] == sum(path.stat().st_size for path in Path("rows.lmdb").glob("shard-*"))
    names: dict[str, PackedDataset] = {}
    exec(packed["read_with"], names)  # noqa: S102 - what users are told to write
    assert names["dataset"][1] == {"id": "2", "text": "b"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("nowhere target", "nowhere: there is no such file or folder (gapless explain not-found)"),
        ("photos data.py", "data.py is there and no folder"),
        ("photos target --shard-size 0", "'0' is not a size; for example 64M or 1G"),
        ("photos target --to zip", "invalid choice: 'zip'"),
        ("photos target.npy", "--to npy is for data sets of arrays of equal shapes"),
        ("data.py:Waves target", "write them, as in 'data.py:Waves(\"train\")'"),
        ("photos photos/target", "lies in its own source"),
    ],
)
def test_a_users_mistake_is_one_line(
    arguments: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["pack", *arguments.split()]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not Path("target").exists()


@pytest.mark.parametrize("command", commands("pack"))
def test_commands_of_the_docs_run(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(shlex.split(command)[1:]) == 0, capsys.readouterr().err
    target = next(word for word in shlex.split(command)[3:] if not word.startswith("-"))
    assert len(PackedDataset(target)) in (2, 3)
