"""Stores of bytes by key: shared by forked processes, bounded, and never wrong."""

from __future__ import annotations

import os
import pickle
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from gapless.parts.caches import disk_store, memory_store
from gapless.parts.caches.disk_store import DiskStore
from gapless.parts.caches.memory_store import MemoryStore, find_free_memory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def in_child(act: Callable[[], bool]) -> bool:
    """Do something in a forked process; return whether it said yes."""
    child = os.fork()
    if child == 0:
        os._exit(0 if act() else 1)
    return os.waitpid(child, 0)[1] == 0


def test_what_one_process_keeps_another_one_has() -> None:
    store = MemoryStore(10, 2, 1 << 16)
    assert store.get(b"a") is None
    assert in_child(lambda: store.put(b"a", b"first" * 100))
    assert bytes(store.get(b"a")) == b"first" * 100
    assert in_child(lambda: store.put(b"b", b"") and bytes(store.get(b"a")) == b"first" * 100)
    assert bytes(store.get(b"b")) == b""
    assert store.n_kept == 0, "others kept them"


def test_each_writer_has_a_part_of_its_own_which_is_free_again_when_it_ends() -> None:
    store = MemoryStore(10, 1, 1 << 12)
    assert in_child(lambda: store.put(b"a", b"1"))
    assert store.put(b"b", b"22"), "the part of the one that ended"
    assert in_child(lambda: not store.put(b"c", b"333")), "it is this process's"
    assert [bytes(store.get(key)) for key in (b"a", b"b")] == [b"1", b"22"]


def test_a_store_that_is_full_keeps_no_more() -> None:
    store = MemoryStore(4, 1, 1 << 10)
    results = [store.put(bytes([number]), b"x" * 300) for number in range(5)]
    assert results == [True, True, True, False, False]
    assert bytes(store.get(b"\2")) == b"x" * 300
    assert not store.put(b"a", b"x" * 2000)


def test_nothing_is_kept_where_others_took_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore(100, 1, 1 << 16)
    monkeypatch.setattr(memory_store, "find_free_memory", lambda: 1 << 10)
    results = [store.put(bytes([number]), b"x") for number in range(40)]
    assert results == [True] * 31 + [False] * 9


def test_a_place_that_holds_another_record_is_none() -> None:
    store = MemoryStore(1, 1, 1 << 12)
    assert store.put(b"a", b"1")
    words = store._words  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    (slot,) = [slot for slot in range(2, len(words)) if words[slot]]
    for other in range(2, len(words)):
        words[other] = words[slot]
    assert bytes(store.get(b"a")) == b"1"
    assert store.get(b"b") is None


def test_it_ends_for_all_and_is_not_sent() -> None:
    store = MemoryStore(4, 1, 1 << 10)
    assert in_child(lambda: (store.end(), True)[1])
    assert store.is_ended()
    assert not store.put(b"a", b"1")
    with pytest.raises(TypeError, match="forked"):
        pickle.dumps(store)


def test_where_the_system_promises_no_memory_nothing_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_store, "find_free_memory", lambda: 1 << 62)
    assert not MemoryStore(4, 1).put(b"a", b"1")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    monkeypatch.setattr(memory_store, "find_free_memory", lambda: 1 << 20)
    assert MemoryStore(4, 1).room == 1 << 17


def test_free_memory_is_what_the_system_and_a_container_leave(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert find_free_memory() > 1 << 20
    values = {"max": "8192", "current": "4096", "stat": "anon 1\ninactive_file 1024\n"}
    for name, value in values.items():
        (tmp_path / name).write_text(value)
    files = tuple(str(tmp_path / name) for name in values)
    monkeypatch.setattr(memory_store, "_CGROUP_FILES", (files,))
    assert find_free_memory() == 8192 - 4096 + 1024
    (tmp_path / "max").write_text("max")
    assert find_free_memory() > 1 << 20
    monkeypatch.setattr(memory_store, "_MEMINFO", str(tmp_path / "none"))
    assert find_free_memory() == 0
    assert MemoryStore(4, 1).put(b"a", b"1") is False


def test_files_are_there_in_a_later_run_and_broken_ones_are_none(tmp_path: Path) -> None:
    folder = str(tmp_path / "new")
    assert DiskStore(folder).put(b"a", b"first")
    assert DiskStore(folder).put(b"b", b"second")
    store = DiskStore(folder)
    assert (bytes(store.get(b"a")), store.get(b"c")) == (b"first", None)
    for path in tmp_path.rglob("*"):
        if path.is_file() and b"second" in path.read_bytes():
            path.write_bytes(path.read_bytes()[:-1])
    assert store.get(b"b") is None
    store.end()
    assert DiskStore(folder).is_ended()
    assert not DiskStore(folder).put(b"d", b"1")


def test_a_disk_is_filled_by_half_at_most(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    free = [100]

    def usage_of(_path: str) -> SimpleNamespace:
        return SimpleNamespace(free=free[0])

    monkeypatch.setattr(disk_store.shutil, "disk_usage", usage_of)
    store = DiskStore(str(tmp_path))
    assert store.put(b"a", b"1" * 50)
    free[0] = 99
    assert not store.put(b"b", b"1" * 50)
    free[0] = 100
    assert not store.put(b"c", b"1"), "it is full for good"
    assert store.n_kept == 1
