"""Files that the user named, written whole or not at all."""

import os
from pathlib import Path

import pytest

from gapless.store.atomic import write_named_file


def test_what_was_there_stays_where_there_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.html"
    page.write_text("before")

    def write_half(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write_half)
    with pytest.raises(OSError, match="No space left"):
        write_named_file(page, b"a page that is too long")
    assert page.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "page.html").symlink_to(tmp_path / "there.html")
    write_named_file(tmp_path / "page.html", b"page")
    assert (tmp_path / "page.html").is_symlink()
    assert (tmp_path / "there.html").read_bytes() == b"page"


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_named_file(pipe, b"page")
    assert os.read(reader, 10) == b"page"
    os.close(reader)
    assert pipe.is_fifo()
