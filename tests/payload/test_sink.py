"""The log of one process: whole frames, one owner, nothing lost in silence."""

import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gapless import wire
from gapless.payload.log import sink

NOTE_FRAME = wire.text_frame(wire.UNOBSERVED, {"what": "a", "why": "b"})
END_FRAME = wire.text_frame(wire.END, {"ns": 1, "how": "exit"})


@pytest.fixture(autouse=True)
def forget_sink() -> Iterator[None]:
    sink.log.fork()
    yield
    sink.log.fork()


def frame_kinds(path: Path) -> list[int]:
    """Return the kinds of the whole frames of a log; nothing may follow them."""
    data = path.read_bytes()
    frames, length = wire.frames(data)
    assert length == len(data)
    return [frame.kind for frame in frames]


def test_frames_are_appended_and_a_successor_goes_on_in_the_file(tmp_path: Path) -> None:
    assert sink.claim(str(tmp_path), ["rank0", "rank0-pid1"]) == "rank0"
    assert sink.append([NOTE_FRAME, END_FRAME]) == 2
    sink.close()
    assert sink.claim(str(tmp_path), ["rank0"]) == "rank0"
    sink.append([NOTE_FRAME])
    assert frame_kinds(tmp_path / "rank0.log") == [wire.UNOBSERVED, wire.END, wire.UNOBSERVED]


def test_a_log_that_another_owns_is_left_to_it(tmp_path: Path) -> None:
    with (tmp_path / "rank0.log").open("wb") as owned_log:
        fcntl.flock(owned_log, fcntl.LOCK_EX)
        assert sink.claim(str(tmp_path), ["rank0", "rank0-pid1"]) == "rank0-pid1"


@pytest.mark.parametrize("cut", [1, 11, 13, 30])
def test_a_log_whose_writer_was_killed_within_a_frame_is_left_as_it_is(
    tmp_path: Path, cut: int
) -> None:
    cut_log = NOTE_FRAME + NOTE_FRAME + NOTE_FRAME[:cut]
    (tmp_path / "rank0.log").write_bytes(cut_log)
    assert sink.claim(str(tmp_path), ["rank0", "rank0-2"]) == "rank0-2"
    sink.append([END_FRAME])
    assert (tmp_path / "rank0.log").read_bytes() == cut_log, "it may have been carried on so"
    assert frame_kinds(tmp_path / "rank0-2.log") == [wire.END]


@pytest.mark.parametrize("end", [b"", END_FRAME])
def test_a_log_of_whole_frames_is_gone_on_with_whether_it_has_an_end_or_not(
    tmp_path: Path, end: bytes
) -> None:
    process_frame = wire.text_frame(wire.PROCESS, {"monotonic_ns": 1, "pid": 5})
    (tmp_path / "rank0.log").write_bytes(process_frame + NOTE_FRAME + end)
    assert sink.claim(str(tmp_path), ["rank0", "rank0-2"]) == "rank0"
    size, age = sink.log.before
    assert size == len(process_frame + NOTE_FRAME + end)
    assert 0 < time.monotonic_ns() - age < 10**9, "it was begun when the clock stood at 1"


@pytest.mark.parametrize("room", range(0, 3 * len(NOTE_FRAME) + 1, 7))
def test_a_disk_that_fills_up_leaves_whole_frames_and_says_how_many_are_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    sink.claim(str(tmp_path), ["rank0"])
    write = os.write

    def write_part(number: int, data: bytes) -> int:
        return write(number, data[:room])

    monkeypatch.setattr(os, "write", write_part)
    n_written = sink.append([NOTE_FRAME, NOTE_FRAME, NOTE_FRAME])
    assert n_written == -(-room // len(NOTE_FRAME)), "what began goes on"
    assert sink.log.lost == 3 - n_written
    monkeypatch.undo()
    assert sink.append([END_FRAME]) == 1
    assert frame_kinds(tmp_path / "rank0.log") == [wire.UNOBSERVED] * n_written + [wire.END]


def test_a_folder_that_is_not_there_is_noted_and_tried_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = tmp_path / "missing"
    assert sink.claim(str(missing), ["rank0"]) is None
    assert sink.log.lost == 1
    assert sink.log.why_lost.startswith("ENOENT")
    missing.mkdir()
    assert sink.claim(str(missing), ["rank0"]) is None, "not within a second"
    monkeypatch.setattr(sink, "AGAIN_NS", 0)
    sink.log.fork()
    assert sink.claim(str(missing), ["rank0"]) == "rank0"


def test_a_descriptor_that_the_user_closed_and_used_again_is_not_written_to(
    tmp_path: Path,
) -> None:
    sink.claim(str(tmp_path), ["rank0"])
    links = list(Path("/proc/self/fd").iterdir())
    number = next(int(link.name) for link in links if _links_to(link, tmp_path / "rank0.log"))
    assert number >= sink.MIN_DESCRIPTOR, "low numbers are the user's"
    with (tmp_path / "mine").open("wb") as users_file:
        os.dup2(users_file.fileno(), number)
    assert not sink.is_open()
    sink.close()
    os.close(number)
    assert (tmp_path / "mine").read_bytes() == b""


def _links_to(link: Path, path: Path) -> bool:
    try:
        return link.readlink() == path
    except OSError:
        return False
