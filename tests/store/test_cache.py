"""The cache: what goes in comes out, or nothing does."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gapless.errors import NotFoundError
from gapless.formats import read
from gapless.model.trace import Trace
from gapless.store import cache, folder, layout
from tests.formats.writing import differences, document, kernel, op, write_trace
from tests.traces import KINETO_FILES


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return each test a cache of its own."""
    cache_folder = tmp_path / "cache"
    monkeypatch.setenv("GAPLESS_CACHE", str(cache_folder))
    monkeypatch.delenv("GAPLESS_CACHE_SIZE", raising=False)
    return cache_folder


@pytest.fixture(name="trace", scope="module")
def small_trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Return a trace with every kind of table."""
    inputs = {"Input Dims": [[2], [[3, 4]]], "Input Strides": [[1], [[4, 1]]],
              "Input type": ["float", "TensorList"], "Concrete Inputs": ["", "2"]}  # fmt: skip
    point = '"name": "[memory]", "ts": 7.5, "args": {"Bytes": 64, "Device Id": -1}}'
    events = [op(args=inputs), kernel(grid=[1], Seq=3), '{"ph": "i", ' + point, '{"ph": "?"}']
    head = '"deviceProperties": [{"id": 0, "name": "X"}], "distributedInfo": {"rank": 1}, '
    return read(write_trace(tmp_path_factory.mktemp("small"), document(events, head)))


def _find_trace_file(cache_folder: Path) -> Path:
    (trace_file,) = cache_folder.glob("*.trace")
    return trace_file


@pytest.mark.parametrize("path", KINETO_FILES, ids=lambda path: path.name.split(".json")[0])
def test_a_trace_comes_back_equal(path: Path) -> None:
    trace = read(path)
    key = cache.content_key(path)
    assert cache.load(key) is None
    assert cache.save(key, trace) is None
    cached_trace = cache.load(key)
    assert cached_trace is not None
    assert differences(trace, cached_trace) == []
    assert cached_trace.path == trace.path


def test_tables_of_every_kind_come_back_equal(trace: Trace) -> None:
    cache.save("k", trace)
    cached_trace = cache.load("k")
    assert cached_trace is not None
    assert differences(trace, cached_trace) == []
    assert (
        len(cached_trace.memory.time),
        len(cached_trace.collectives),
        len(cached_trace.devices),
    ) == (1, 1, 1)
    assert cached_trace.health.dropped != ()


def test_columns_are_mapped_read_only(trace: Trace) -> None:
    cache.save("k", trace)
    cached_trace = cache.load("k")
    assert cached_trace is not None
    assert not cached_trace.events.start.flags.writeable
    assert not cached_trace.events.start.flags.owndata
    assert not cached_trace.gpu.bytes.flags.writeable


def test_a_trace_without_events_comes_back(tmp_path: Path) -> None:
    trace = read(write_trace(tmp_path, document([])))
    cache.save("k", trace)
    cached_trace = cache.load("k")
    assert cached_trace is not None
    assert differences(trace, cached_trace) == []


def test_any_cut_of_a_kept_trace_is_a_miss(trace: Trace, cache_folder: Path) -> None:
    cache.save("k", trace)
    data = _find_trace_file(cache_folder).read_bytes()
    for size in [0, 1, 15, 39, 40, 41, 500, len(data) // 2, len(data) - 4096, len(data) - 1]:
        _find_trace_file(cache_folder).write_bytes(data[:size])
        assert cache.load("k") is None
    _find_trace_file(cache_folder).write_bytes(data + b"\0")
    assert cache.load("k") is None


def test_any_changed_byte_of_a_small_kept_trace_is_a_miss(trace: Trace, cache_folder: Path) -> None:
    cache.save("k", trace)
    data = bytearray(_find_trace_file(cache_folder).read_bytes())
    tables = int.from_bytes(data[16:24], "little")
    gap = range(40 + tables, -(-(40 + tables) // 4096) * 4096)  # padding, which holds nothing
    for offset in range(0, len(data), 97):
        if offset in gap:
            continue
        data[offset] ^= 0xFF
        _find_trace_file(cache_folder).write_bytes(data)
        assert cache.load("k") is None, offset
        data[offset] ^= 0xFF
    _find_trace_file(cache_folder).write_bytes(data)
    assert cache.load("k") is not None


def test_zeros_where_a_large_file_should_have_columns_are_a_miss(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "_SAMPLED_PAGES", 8)
    cache.save("k", read(KINETO_FILES[0]))
    data = bytearray(_find_trace_file(cache_folder).read_bytes())
    data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    _find_trace_file(cache_folder).write_bytes(data)
    assert cache.load("k") is None


def test_the_key_is_the_content_the_name_and_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "other" / "a").mkdir(parents=True)
    original_path = write_trace(tmp_path / "a", document([op()]), "rank_1.json")
    copy_path = write_trace(tmp_path / "other" / "a", document([op()]), "rank_1.json")
    renamed_path = write_trace(tmp_path / "a", document([op()]), "rank_2.json")
    keys = [cache.content_key(path) for path in (original_path, copy_path, renamed_path)]
    assert keys[0] == keys[1]
    assert keys[0] != keys[2]  # the name may state the rank
    write_trace(tmp_path / "a", document([op("b")]), "rank_1.json")
    assert cache.content_key(original_path) != keys[0]
    monkeypatch.setattr(cache, "_code", lambda: b"another version")
    assert cache.content_key(copy_path) != keys[1]


def test_the_code_is_every_module_that_makes_a_trace() -> None:
    assert len(cache.fingerprint(Path(cache.__file__).parents[1])) == 32
    fingerprint = cache.fingerprint(Path(cache.__file__).parents[1])
    assert fingerprint != cache.fingerprint(Path(cache.__file__).parent)


def test_the_key_of_a_large_file_depends_on_each_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_PIECE", 10)
    path = tmp_path / "t"
    keys: set[str] = set()
    for text in (b"a" * 35, b"a" * 34 + b"b", b"b" + b"a" * 34, b"a" * 36, b"a" * 30, b""):
        path.write_bytes(text)
        keys.add(cache.content_key(path))
    assert len(keys) == 6


def test_the_key_of_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"gone\.json"):
        cache.content_key(tmp_path / "gone.json")


def test_blobs_come_back_and_damaged_ones_do_not(cache_folder: Path) -> None:
    assert cache.load_blob("k", "study") is None
    assert cache.save_blob("k", "study", b"some bytes") is None
    assert cache.load_blob("k", "study") == b"some bytes"
    assert cache.load_blob("k", "other") is None
    assert cache.save_blob("k", "empty", b"") is None
    assert cache.load_blob("k", "empty") == b""
    (path,) = cache_folder.glob("*study*")
    data = path.read_bytes()
    for damaged in (data[:-1], data + b"x", data[:-1] + b"!", b"", data[:5]):
        path.write_bytes(damaged)
        assert cache.load_blob("k", "study") is None


def test_a_blobs_name_cannot_leave_the_folder(cache_folder: Path) -> None:
    for name in ("../../evil", "a/b", "", ".", "ü", "x" * 300):
        assert cache.save_blob("k", name, b"x") is None
        assert cache.load_blob("k", name) == b"x"
    assert [path.parent for path in cache_folder.parent.rglob("*.blob")] == [cache_folder] * 6


def test_the_least_recently_used_go_first(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, key in enumerate("abcd"):
        cache.save_blob(key, "x", bytes(1000))
        os.utime(cache_folder / f"{key}.x.blob", (number, number))
    assert cache.load_blob("a", "x") is not None  # used: now the youngest
    monkeypatch.setenv("GAPLESS_CACHE_SIZE", "3500")
    cache.save_blob("e", "x", bytes(1000))
    assert sorted(path.name[0] for path in cache_folder.iterdir()) == ["a", "d", "e"]


def test_what_is_larger_than_the_cache_is_not_kept_and_evicts_nothing(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.save_blob("a", "x", bytes(10))
    monkeypatch.setenv("GAPLESS_CACHE_SIZE", "1K")
    reason = cache.save_blob("b", "x", bytes(2000))
    assert reason == "larger than the cache may be"
    assert [path.name for path in cache_folder.iterdir()] == ["a.x.blob"]


@pytest.mark.parametrize(
    ("text", "size"),
    [("", 4 << 30), ("0", 0), ("500", 500), ("2K", 2048), ("1.5g", 3 << 29), ("7MB", 7 << 20),
     ("lots", 4 << 30), ("-5", 0), ("inf", 4 << 30)],
)  # fmt: skip
def test_the_limit_is_told_by_the_environment(
    monkeypatch: pytest.MonkeyPatch, text: str, size: int
) -> None:
    monkeypatch.setenv("GAPLESS_CACHE_SIZE", text)
    assert folder.size_limit() == size


def test_the_place_is_told_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAPLESS_CACHE", "/somewhere")
    assert folder.cache_folder() == Path("/somewhere")
    monkeypatch.delenv("GAPLESS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert folder.cache_folder() == Path("/xdg/gapless")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/nobody")
    monkeypatch.setattr(sys, "platform", "linux")
    assert folder.cache_folder() == Path("/nobody/.cache/gapless")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert folder.cache_folder() == Path("/nobody/Library/Caches/gapless")


def _refuse(code: int) -> Callable[..., object]:
    def refuse(*_args: object, **_kwargs: object) -> object:
        raise OSError(code, os.strerror(code))

    return refuse


@pytest.mark.parametrize("target", ["tempfile.mkstemp", "os.replace", "pathlib.Path.mkdir"])
@pytest.mark.parametrize("code", [13, 28, 30])  # no permission, no space, a read-only file system
def test_a_cache_that_cannot_be_written_is_no_error(
    trace: Trace, cache_folder: Path, monkeypatch: pytest.MonkeyPatch, target: str, code: int
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(target, _refuse(code))
        reason = cache.save("k", trace)
    assert reason is not None
    assert os.strerror(code) in reason
    assert cache.load("k") is None
    assert (
        not cache_folder.exists() or list(cache_folder.iterdir()) == []
    )  # nothing half-written is left


def test_a_place_that_is_a_file_is_no_error(trace: Trace, cache_folder: Path) -> None:
    cache_folder.write_text("in the way")
    assert cache.save("k", trace) is not None
    assert cache.load("k") is None
    assert cache.save_blob("k", "x", b"") is not None
    assert cache.load_blob("k", "x") is None


def test_a_cache_that_may_only_be_read_serves(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.save("k", trace)
    monkeypatch.setattr(os, "utime", _refuse(30))
    assert cache.load("k") is not None


def test_writers_that_run_at_once_leave_one_whole_trace(trace: Trace, cache_folder: Path) -> None:
    threads = [
        threading.Thread(target=lambda: [cache.save("k", trace) for _ in range(20)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        cached_trace = cache.load("k")
        assert cached_trace is None or differences(trace, cached_trace) == []
    for thread in threads:
        thread.join()
    assert [path.name for path in cache_folder.iterdir()] == ["k.trace"]


def test_a_writer_that_is_killed_leaves_no_trace_and_its_rest_goes_in_time(
    cache_folder: Path,
) -> None:
    code = (
        "import os, tempfile; from gapless.store import cache\n"
        "os.replace = lambda *_: os._exit(9)\n"
        "cache.save_blob('k', 'x', bytes(100))\n"
    )
    process = subprocess.run([sys.executable, "-c", code], check=False, env=dict(os.environ))
    assert process.returncode == 9
    (leftover,) = cache_folder.iterdir()
    assert cache.load_blob("k", "x") is None
    cache.save_blob("a", "x", b"")
    assert leftover.exists()  # it might still be written to
    long_ago = time.time() - 7200
    os.utime(leftover, (long_ago, long_ago))
    cache.save_blob("b", "x", b"")
    assert not leftover.exists()
