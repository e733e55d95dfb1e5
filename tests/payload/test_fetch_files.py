"""Paths that fetches open, and files that are written."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import pytest

from gapless import wire
from gapless.payload import recorder
from gapless.payload.hooks import files
from tests.payload.loading import run


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def write(kind: int, value: dict[str, Any]) -> None:
        assert kind == wire.FILES
        found.append(value)

    monkeypatch.setattr(recorder, "write", write)
    monkeypatch.setattr(files, "_last", 0)
    monkeypatch.setattr(files, "_turn", {"next": 0, "due": 0})
    monkeypatch.setattr(files, "_reads", {"due": 0, "wait": files.EVERY_NS})
    for name in ("_read", "_seen", "_written", "_known"):
        monkeypatch.setattr(files, name, type(getattr(files, name))())
    return found


def test_paths_are_counted_and_only_what_is_new_is_told(told: list[dict[str, Any]]) -> None:
    for path in ("a", b"a", "b", 7, None):
        files.opened(path, "rb")
    files.tell()
    files.opened("a", "r")
    files.tell()
    files.tell()
    assert told == [{"read": {"a": 2, "b": 1}, "written": []}, {"read": {"a": 1}, "written": []}]


def test_paths_are_told_ever_more_rarely_and_each_is_counted(
    told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [time.monotonic_ns()]
    monkeypatch.setattr(recorder, "now", lambda: clock[0])
    seconds = 86_400
    for second in range(seconds):
        clock[0] += 1_000_000_000
        files.opened(f"{second % 9}", "rb")
        if second == seconds // 2:
            files.opened("/out", "wb")
        files.tick(clock[0])
    files.finish()
    assert 50 < len(told) < 70, "each half hour in the end"
    assert sum(sum(one["read"].values()) for one in told) == seconds
    (at,) = [at for at, one in enumerate(told) if one["written"]]
    assert told[at]["read"] == {}, "what is written is told at once"


def test_where_there_is_no_room_paths_are_counted_on(
    told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    room = [False]

    def affords(**_: bool) -> bool:
        return room[0]

    monkeypatch.setattr(files.thinning, "affords", affords)
    for _ in range(2):
        files.opened("a", "rb")
        files.tick(time.monotonic_ns())
        files.finish()
    assert told == []
    room[0] = True
    files.finish()
    assert told == [{"read": {"a": 2}, "written": []}]


def test_too_many_paths_are_counted_together(
    told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST", 3)
    for number in range(10):
        files.opened(f"{number % 5}", "rb")
    files.tell()
    assert told[0]["read"] == {"0": 2, "1": 2, "2": 2, "": 4}


@pytest.mark.parametrize("mode", ["w", "ab", "x", "r+b"])
def test_files_that_fetches_write_are_told_once(
    told: list[dict[str, Any]], mode: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "out")
    files.opened(path, mode)
    files.opened(path, mode)
    files.tell()
    files.opened(path, mode)
    files.tell()
    assert told == [{"read": {}, "written": [path]}]


def test_files_open_for_writing_are_found_at_an_edge(
    told: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").write_text("x")
    with (tmp_path / "out").open("w"), (tmp_path / "in").open(), (tmp_path / "more").open("a+"):
        files.edge(1, 0, 0)
        files.edge(2, 0, 0)  # too soon after
        assert len(told) == 1
    written = {path for path in told[0]["written"] if path.startswith(str(tmp_path))}
    assert written == {str(tmp_path / "out"), str(tmp_path / "more")}
    monkeypatch.setattr(files, "EVERY_NS", 0)
    files.edge(3, 0, 0)
    assert len(told) == 1
    assert told[0]["read"] == {}


def test_a_child_does_not_tell_what_its_parent_saw(told: list[dict[str, Any]]) -> None:
    files.opened("a", "rb")
    files.forget()
    files.tell()
    assert told == []


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
    ran = run(tmp_path, "import builtins\n" + NESTED)
    assert ran.out == "[[112, 112, 112, 112], [112, 112, 112, 112]]\nTrue\n"
    assert {(row.of("loader"), row.of("sequence")) for row in ran.rows} == {(0, 0), (0, 1)}
    assert all(row.of("samples") == 4 for row in ran.rows)


def test_where_thousands_of_files_are_open_each_look_takes_a_few(
    told: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "EVERY_NS", 0)
    monkeypatch.setattr(files, "SHARE", 0)
    monkeypatch.setattr(files, "BUDGET_NS", 2_000_000)
    looked: list[str] = []
    original = files._written_to  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    def written_to(number: str) -> str:
        looked.append(number)
        time.sleep(0.001)
        return original(number)

    monkeypatch.setattr(files, "_written_to", written_to)
    with contextlib.ExitStack() as stack:
        for number in range(20):
            stack.enter_context((tmp_path / f"{number}").open("w"))
        files.edge(1, 0, 0)
        assert 0 < len(looked) < 20
        for _ in Path("/proc/self/fd").iterdir():
            files.edge(2, 0, 0)
    written = {path for one in told for path in one["written"] if path.startswith(str(tmp_path))}
    assert len(written) == 20


def test_looking_at_files_takes_a_small_share_of_the_time(
    told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "EVERY_NS", 0)
    looks: list[bool] = []

    def written_to(_number: str) -> str:
        looks.append(True)
        return ""

    monkeypatch.setattr(files, "_written_to", written_to)
    files.edge(1, 0, 0)
    first = len(looks)
    files.edge(2, 0, 0)
    assert first == len(looks) > 0
    assert told == []
