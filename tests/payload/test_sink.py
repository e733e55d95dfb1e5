"""The log of one process: whole frames, one owner, nothing lost in silence."""

import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gapless import wire
from gapless.payload import sink

ONE = wire.text_frame(wire.UNSEEN, {"what": "a", "why": "b"})
LAST = wire.text_frame(wire.END, {"ns": 1, "how": "exit"})


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    sink.forget()
    yield
    sink.forget()


def kinds(path: Path) -> list[int]:
    """Give the kinds of the whole frames of a log; nothing may follow them."""
    data = path.read_bytes()
    found, length = wire.frames(data)
    assert length == len(data)
    return [one.kind for one in found]


def test_frames_are_appended_and_a_successor_goes_on_in_the_file(tmp_path: Path) -> None:
    assert sink.claim(str(tmp_path), ["rank0", "rank0-pid1"]) == "rank0"
    assert sink.append([ONE, LAST]) == 2
    sink.close()
    assert sink.claim(str(tmp_path), ["rank0"]) == "rank0"
    sink.append([ONE])
    assert kinds(tmp_path / "rank0.log") == [wire.UNSEEN, wire.END, wire.UNSEEN]


def test_a_log_that_another_owns_is_left_to_it(tmp_path: Path) -> None:
    with (tmp_path / "rank0.log").open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert sink.claim(str(tmp_path), ["rank0", "rank0-pid1"]) == "rank0-pid1"


@pytest.mark.parametrize("cut", [1, 11, 13, 30])
def test_a_log_whose_writer_was_killed_within_a_frame_is_left_as_it_is(
    tmp_path: Path, cut: int
) -> None:
    left = ONE + ONE + ONE[:cut]
    (tmp_path / "rank0.log").write_bytes(left)
    assert sink.claim(str(tmp_path), ["rank0", "rank0-2"]) == "rank0-2"
    sink.append([LAST])
    assert (tmp_path / "rank0.log").read_bytes() == left, "it may have been carried on so"
    assert kinds(tmp_path / "rank0-2.log") == [wire.END]


@pytest.mark.parametrize("end", [b"", LAST])
def test_a_log_of_whole_frames_is_gone_on_with_whether_it_has_an_end_or_not(
    tmp_path: Path, end: bytes
) -> None:
    begun = wire.text_frame(wire.PROCESS, {"monotonic_ns": 1, "pid": 5})
    (tmp_path / "rank0.log").write_bytes(begun + ONE + end)
    assert sink.claim(str(tmp_path), ["rank0", "rank0-2"]) == "rank0"
    size, age = sink.before
    assert size == len(begun + ONE + end)
    assert 0 < time.monotonic_ns() - age < 10**9, "it was begun when the clock stood at 1"


@pytest.mark.parametrize("room", range(0, 3 * len(ONE) + 1, 7))
def test_a_disk_that_fills_up_leaves_whole_frames_and_says_how_many_are_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    sink.claim(str(tmp_path), ["rank0"])
    write = os.write

    def fills_up(number: int, data: bytes) -> int:
        return write(number, data[:room])

    monkeypatch.setattr(os, "write", fills_up)
    went = sink.append([ONE, ONE, ONE])
    assert went == -(-room // len(ONE)), "what began goes on"
    assert sink.lost == 3 - went
    monkeypatch.undo()
    assert sink.append([LAST]) == 1
    assert kinds(tmp_path / "rank0.log") == [wire.UNSEEN] * went + [wire.END]


def test_a_folder_that_is_not_there_is_noted_and_tried_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = tmp_path / "missing"
    assert sink.claim(str(missing), ["rank0"]) is None
    assert sink.lost == 1
    assert sink.why_lost.startswith("ENOENT")
    missing.mkdir()
    assert sink.claim(str(missing), ["rank0"]) is None, "not within a second"
    monkeypatch.setattr(sink, "AGAIN_NS", 0)
    sink.forget()
    assert sink.claim(str(missing), ["rank0"]) == "rank0"


def test_a_descriptor_that_the_user_closed_and_used_again_is_not_written_to(
    tmp_path: Path,
) -> None:
    sink.claim(str(tmp_path), ["rank0"])
    open_ones = list(Path("/proc/self/fd").iterdir())
    number = next(int(one.name) for one in open_ones if _names(one, tmp_path / "rank0.log"))
    assert number >= sink.HIGH, "low numbers are the user's"
    with (tmp_path / "mine").open("wb") as mine:
        os.dup2(mine.fileno(), number)
    assert not sink.is_open()
    sink.close()
    os.close(number)
    assert (tmp_path / "mine").read_bytes() == b""


def _names(link: Path, path: Path) -> bool:
    try:
        return link.readlink() == path
    except OSError:
        return False
