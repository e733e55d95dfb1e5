"""Paths that fetches open, and files that are written."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gapless import wire
from gapless.payload import recorder
from gapless.payload.hooks import files
from tests.payload.loading import run_script


@pytest.fixture
def file_frames(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    file_frames: list[dict[str, Any]] = []

    def write(kind: int, value: dict[str, Any]) -> None:
        assert kind == wire.FILES
        file_frames.append(value)

    monkeypatch.setattr(recorder, "write", write)
    monkeypatch.setattr(files, "_paths", type(files._paths)())  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return file_frames


def test_paths_are_counted_and_only_what_is_new_is_told(file_frames: list[dict[str, Any]]) -> None:
    for path in ("a", b"a", "b", 7, None):
        files.note_open(path, "rb")
    files.write_paths()
    files.note_open("a", "r")
    files.write_paths()
    files.write_paths()
    assert file_frames == [
        {"read": {"a": 2, "b": 1}, "written": []},
        {"read": {"a": 1}, "written": []},
    ]


def test_paths_are_told_ever_more_rarely_and_each_is_counted(
    file_frames: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [time.monotonic_ns()]
    monkeypatch.setattr(recorder, "now", lambda: clock[0])
    seconds = 86_400
    for second in range(seconds):
        clock[0] += 1_000_000_000
        files.note_open(f"{second % 9}", "rb")
        if second == seconds // 2:
            files.note_open("/out", "wb")
        files.tick(clock[0])
    files.finish()
    assert 50 < len(file_frames) < 70, "each half hour in the end"
    assert sum(sum(frame["read"].values()) for frame in file_frames) == seconds
    (index,) = [index for index, frame in enumerate(file_frames) if frame["written"]]
    assert file_frames[index]["read"] == {}, "what is written is told at once"


def test_where_there_is_no_room_paths_are_counted_on(
    file_frames: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    room = [False]

    def affords(**_: bool) -> bool:
        return room[0]

    monkeypatch.setattr(files.thinning, "affords", affords)
    for _ in range(2):
        files.note_open("a", "rb")
        files.tick(time.monotonic_ns())
        files.finish()
    assert file_frames == []
    room[0] = True
    files.finish()
    assert file_frames == [{"read": {"a": 2}, "written": []}]


def test_too_many_paths_are_counted_together(
    file_frames: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_PATHS", 3)
    for number in range(10):
        files.note_open(f"{number % 5}", "rb")
    files.write_paths()
    assert file_frames[0]["read"] == {"0": 2, "1": 2, "2": 2, "": 4}


@pytest.mark.parametrize("mode", ["w", "ab", "x", "r+b"])
def test_files_that_fetches_write_are_told_once(
    file_frames: list[dict[str, Any]], mode: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "out")
    files.note_open(path, mode)
    files.note_open(path, mode)
    files.write_paths()
    files.note_open(path, mode)
    files.write_paths()
    assert file_frames == [{"read": {}, "written": [path]}]


def test_files_open_for_writing_are_found_at_an_edge(
    file_frames: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "BUDGET_NS", 10**10)  # other tests' descriptors come first
    (tmp_path / "in").write_text("x")
    with (tmp_path / "out").open("w"), (tmp_path / "in").open(), (tmp_path / "more").open("a+"):
        files.edge(1, 0, 0)
        files.edge(2, 0, 0)  # too soon after
        assert len(file_frames) == 1
    written_paths = {path for path in file_frames[0]["written"] if path.startswith(str(tmp_path))}
    assert written_paths == {str(tmp_path / "out"), str(tmp_path / "more")}
    monkeypatch.setattr(files, "EVERY_NS", 0)
    files.edge(3, 0, 0)
    assert len(file_frames) == 1
    assert file_frames[0]["read"] == {}


def test_files_that_a_process_was_given_by_its_parent_are_none_that_it_writes(
    file_frames: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "BUDGET_NS", 10**10)
    given, own = (tmp_path / "lock").open("w"), (tmp_path / "out").open("w")
    with (
        given,
        own,
        subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[given.fileno()]
        ) as parent,
    ):
        try:
            monkeypatch.setattr(os, "getppid", lambda: parent.pid)
            files.edge(1, 0, 0)
        finally:
            parent.kill()
    (frame,) = file_frames
    assert [path for path in frame["written"] if path.startswith(str(tmp_path))] == [own.name]


def test_a_child_does_not_tell_what_its_parent_saw(file_frames: list[dict[str, Any]]) -> None:
    files.note_open("a", "rb")
    files._paths.fork()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    files.write_paths()
    assert file_frames == []


NESTED = """
class Outer(Numbers):
    def __getitem__(self, index):
        return sum(int(batch.sum()) for batch in DataLoader(Numbers(), batch_size=4))

if __name__ == "__main__":
    before = builtins.open
    print([batch.tolist() for batch in DataLoader(Outer(), batch_size=4)])
    print(builtins.open is before)
"""


def test_a_loader_within_a_fetch_belongs_to_that_fetch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    recorded = run_script(tmp_path, "import builtins\n" + NESTED)
    assert recorded.out == "[[112, 112, 112, 112], [112, 112, 112, 112]]\nTrue\n"
    assert {(row.value_of("loader"), row.value_of("sequence")) for row in recorded.rows} == {
        (0, 0),
        (0, 1),
    }
    assert all(row.value_of("samples") == 4 for row in recorded.rows)


def test_where_thousands_of_files_are_open_each_look_takes_a_few(
    file_frames: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "EVERY_NS", 0)
    monkeypatch.setattr(files, "SHARE", 0)
    monkeypatch.setattr(files, "BUDGET_NS", 2_000_000)
    checked: list[str] = []
    original = files._written_to  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    def written_to(number: str) -> str:
        checked.append(number)
        time.sleep(0.001)
        return original(number)

    monkeypatch.setattr(files, "_written_to", written_to)
    with contextlib.ExitStack() as stack:
        for number in range(20):
            stack.enter_context((tmp_path / f"{number}").open("w"))
        files.edge(1, 0, 0)
        assert 0 < len(checked) < 20
        for _ in Path("/proc/self/fd").iterdir():
            files.edge(2, 0, 0)
    written_paths = {
        path for frame in file_frames for path in frame["written"] if path.startswith(str(tmp_path))
    }
    assert len(written_paths) == 20


def test_looking_at_files_takes_a_small_share_of_the_time(
    file_frames: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "EVERY_NS", 0)
    clock = [1_000_000_000]
    monkeypatch.setattr(recorder, "now", lambda: clock[0])
    looks: list[bool] = []

    def written_to(_number: str) -> str:
        clock[0] += 1_000
        looks.append(True)
        return ""

    monkeypatch.setattr(files, "_written_to", written_to)
    files.edge(1, 0, 0)
    n_looks = len(looks)
    clock[0] += files.SHARE * n_looks * 1_000 - 1
    files.edge(2, 0, 0)
    assert n_looks == len(looks) > 0
    clock[0] += 1
    files.edge(3, 0, 0)
    assert len(looks) > n_looks
    assert file_frames == []
