"""Paths, folders, patterns and standard input; ranks from names."""

import io
import os
from pathlib import Path

import pytest

from gapless.errors import GaplessError, NotATraceError, NotFoundError, UsageError
from gapless.formats import find, read, spool
from gapless.formats.text.source import is_stream, rank_of
from gapless.formats.text.stream import TraceText
from tests.formats.writing import document, op, write_trace

_TEXT = document([op()])


def _names(folder: Path, *paths: str) -> list[str]:
    return [str(path.relative_to(folder)) for path in find([str(folder / p) for p in paths])]


def _tree(folder: Path) -> None:
    (folder / "deep" / "deeper").mkdir(parents=True)
    write_trace(folder, _TEXT, "host_12.1712195495505.pt.trace.json.gz")
    write_trace(folder, _TEXT, "b.json")
    write_trace(folder, _TEXT, "deep/rank_3.json.zst")
    write_trace(folder, "[" + op() + "]", "deep/deeper/bare.json")
    write_trace(folder, '{"name": "left-pad"}', "package.json")
    write_trace(folder, "not JSON", "deep/broken.json")
    write_trace(folder, b"\x1f\x8b\x08 no gzip", "deep/odd.json.gz")
    write_trace(folder, _TEXT, "notes.txt")


def test_a_folder_gives_the_traces_below_it_and_nothing_else(tmp_path: Path) -> None:
    _tree(tmp_path)
    assert _names(tmp_path, "") == [
        "b.json",
        "deep/deeper/bare.json",
        "deep/rank_3.json.zst",
        "host_12.1712195495505.pt.trace.json.gz",
    ]


def test_a_pattern_gives_what_looks_like_a_trace(tmp_path: Path) -> None:
    _tree(tmp_path)
    assert _names(tmp_path, "*.json") == ["b.json"]
    assert _names(tmp_path, "**/*.zst") == ["deep/rank_3.json.zst"]
    assert _names(tmp_path, "d*") == ["deep/deeper/bare.json", "deep/rank_3.json.zst"]


def test_a_file_named_itself_is_taken_whatever_its_name(tmp_path: Path) -> None:
    _tree(tmp_path)
    assert _names(tmp_path, "notes.txt", "package.json") == ["notes.txt", "package.json"]


def test_a_file_comes_once(tmp_path: Path) -> None:
    _tree(tmp_path)
    (tmp_path / "link.json").symlink_to(tmp_path / "b.json")
    assert _names(tmp_path, "b.json", "b.json", "link.json") == ["b.json"]


@pytest.mark.parametrize("path", ["gone.json", "gone/*.json", "empty"])
def test_what_names_nothing_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError, match=path.replace("*", r"\*")):
        find([str(tmp_path / path)])


def test_standard_input_is_read_from_a_file_that_is_gone_afterwards() -> None:
    with spool(io.BytesIO(_TEXT.encode())) as path:
        assert len(read(path).events) == 1
    assert not path.exists()
    with pytest.raises(UsageError, match="standard input"):
        find(["-", "x.json"])


def test_the_spooled_file_is_gone_after_an_error_too() -> None:
    spool_context = spool(io.BytesIO(b"x"))
    path = spool_context.__enter__()
    assert path.exists()
    assert not spool_context.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    assert not path.exists()


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("rank0.json", 0),
        ("trace_rank-12.json.gz", 12),
        ("rank_3_step_5.json", 3),
        ("Rank7.pt.trace.json", 7),
        ("rank5/trace.json", 5),
        ("dp0_pp1_rank_9/rank_8.json", 8),
        ("host_4711.1712195495505.pt.trace.json", None),
        ("frank1.json", None),
        ("worker0.json", None),
    ],
)
def test_ranks_come_from_names(path: str, rank: int | None) -> None:
    assert rank_of(Path(path)) == rank


def test_what_the_file_says_of_its_rank_wins_over_its_name(tmp_path: Path) -> None:
    text = document([op()], '"distributedInfo": {"rank": 4}, ')
    assert read(write_trace(tmp_path, text, "rank_9.json")).rank == 4
    assert read(write_trace(tmp_path, _TEXT, "rank_9.json")).rank == 9


def test_a_pipe_is_a_stream_and_a_device_is_no_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    write_trace(tmp_path, _TEXT, "b.json")
    assert is_stream(str(pipe))
    assert not is_stream(str(tmp_path / "b.json"))
    assert _names(tmp_path, "") == ["b.json"]  # and nobody waits for a writer of the pipe
    with pytest.raises(UsageError, match=r"pipe\.json: .* only be read alone"):
        find([str(pipe), str(tmp_path / "b.json")])
    with pytest.raises(NotATraceError, match="a device"):
        find(["/dev/null"])


def test_an_empty_path_is_not_the_folder_we_are_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_trace(tmp_path, _TEXT, "b.json")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFoundError, match="a path is empty"):
        find([""])


def test_a_folder_of_an_unknown_user_is_refused() -> None:
    with pytest.raises(NotFoundError, match="~nobody-of-this-name"):
        find(["~nobody-of-this-name/trace.json"])


def test_what_must_not_be_read_is_not_passed_over_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _tree(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(TraceText, "pieces", _deny)
        assert "deep/rank_3.json.zst" in _names(tmp_path, "")
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", _deny)
        with pytest.raises(NotFoundError, match="Permission denied"):
            find([str(tmp_path)])
    monkeypatch.setattr(Path, "is_dir", _deny)
    with pytest.raises(NotFoundError, match="Permission denied"):
        find([str(tmp_path / "b.json")])


def _deny(*_: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_no_room_for_standard_input_is_said() -> None:
    class Full(io.BytesIO):
        def read(self, _: int | None = -1, /) -> bytes:
            raise OSError(28, "No space left on device")

    with pytest.raises(GaplessError, match="No space left on device; set TMPDIR"), spool(Full()):
        pass
