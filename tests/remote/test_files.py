"""Remote files: listed, known by their content, fetched whole, and shown without their secrets."""

# ruff: noqa: ANN401  fsspec has no types

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import fsspec  # pyright: ignore[reportMissingTypeStubs]
import pytest

from gapless.errors import NotFoundError, RemoteError, mask_secrets
from gapless.remote import files
from gapless.remote.files import find_urls, identify_url, is_url, local_file, strip_file_url
from gapless.store import cache
from gapless.study import Options, open_study

_DATA = Path(__file__).parents[1] / "data"
_SIGNED_URL = "https://user:hunter2@host/log/rank3/t.json?X-Amz-Signature=abc&x=1"


@pytest.fixture
def memory() -> Iterator[Any]:
    """Return fsspec's file system in memory, empty before and after."""
    system = cast("Any", fsspec).filesystem("memory")
    system.store.clear()
    yield system
    system.store.clear()


def test_urls_are_told_from_paths() -> None:
    assert all(map(is_url, ("s3://b/x", "https://h/x", "simplecache::s3://b/x", "gs://b")))
    assert not any(map(is_url, ("log/x.json", "/a/b", "C:/x", "-", "file:///a", "a:b")))
    assert strip_file_url("file:///a%20b/c.json") == "/a b/c.json"
    assert strip_file_url("file://localhost/a#1/rank?.json") == "/a#1/rank?.json"


def test_folders_and_patterns_give_what_is_named_like_a_trace(memory: Any) -> None:
    for name in ("/log/rank1/t.json", "/log/rank0/t.json.gz", "/log/notes.txt", "/log/t[1].pt"):
        memory.pipe(name, b"x")
    every = ("memory://log/rank0/t.json.gz", "memory://log/rank1/t.json")

    def wants(name: str) -> bool:
        return ".json" in name

    assert find_urls("memory://log", wants) == every
    assert find_urls("memory://log/rank*", wants) == every
    assert find_urls("memory://log/*/t.json", wants) == every[1:]
    assert find_urls("memory://log/notes.txt", wants) == ("memory://log/notes.txt",)
    assert find_urls("memory://log/t[1].pt", bool) == ("memory://log/t[1].pt",)
    assert find_urls("memory://", wants) == tuple(name.replace("//", "///") for name in every)
    with pytest.raises(NotFoundError, match="no trace there"):
        find_urls("memory://log/*.bin", wants)
    with pytest.raises(NotFoundError, match="no such file"):
        find_urls("memory://else", wants)


def test_a_remote_trace_has_the_study_that_it_has_on_disk(memory: Any) -> None:
    path = _DATA / "two_ranks.rank1.json.gz"
    memory.pipe(f"/job/{path.name}", path.read_bytes())
    remote = open_study([f"memory:///job/{path.name}"], Options(cache=False, diagnose=False))
    local = open_study([path], Options(cache=False, diagnose=False))
    assert remote.account == local.account
    assert remote.run.paths == ("memory:///job/two_ranks.rank1.json.gz",)


def test_content_is_known_without_fetching_it(memory: Any) -> None:
    memory.pipe("/a/t.json", b"x")
    url = "memory:///a/t.json"
    key = cache.content_key(url)
    assert cache.content_key(url) == key
    memory.pipe("/a/t.json", b"y")
    assert cache.content_key(url) != key


def test_what_tells_no_version_is_never_taken_for_what_was_read(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.pipe("/a/t.json", b"x")
    _set_answer(monkeypatch, memory, "info", lambda: {"size": 1, "type": "file"})
    assert identify_url("memory:///a/t.json") != identify_url("memory:///a/t.json")
    for version, is_known in ({"ETag": "1"}, True), ({"Last-Modified": "today"}, False):
        _set_answer(monkeypatch, memory, "info", lambda version=version: version)
        urls = ("memory:///a/get?rank=0", "memory:///a/get?rank=1")
        assert (identify_url(urls[0]) == identify_url(urls[1])) is is_known


def _set_answer(
    monkeypatch: pytest.MonkeyPatch, memory: Any, name: str, give: Callable[[], object]
) -> None:
    def answer(*_: object, **__: object) -> object:
        return give()

    monkeypatch.setattr(cast("type[object]", type(memory)), name, answer)


class _CutFile(io.BytesIO):
    """A file whose connection breaks after seven bytes."""

    def read(self, _: int | None = -1, /) -> bytes:
        if self.tell():
            raise OSError("reset by s3://key:hunter2@bucket")
        return super().read(7)


def _cut(memory: Any, monkeypatch: pytest.MonkeyPatch, opened: list[io.BytesIO]) -> str:
    monkeypatch.setattr(files, "_PAUSE_S", 0)
    _set_answer(monkeypatch, memory, "info", lambda: {"size": 20, "type": "file"})
    _set_answer(monkeypatch, memory, "open", lambda: opened.pop(0))
    return "memory:///a/t.json"


def test_a_cut_download_goes_on_where_it_was(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes(range(20))
    url = _cut(memory, monkeypatch, [_CutFile(data), _Unseekable(data[:9]), io.BytesIO(data)])
    with local_file(url) as copy:
        assert copy.read_bytes() == data
    assert not copy.exists()


class _Unseekable(io.BytesIO):
    """A server that sends a file from its beginning alone."""

    def seek(self, at: int, whence: int = 0, /) -> int:
        if at:
            raise ValueError("cannot seek")
        return super().seek(at, whence)


def test_what_stays_cut_is_said_without_its_secrets(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = _cut(memory, monkeypatch, [_CutFile(bytes(20)) for _ in range(9)])
    with pytest.raises(RemoteError, match="cut after 7 of 20 bytes: reset by") as error:
        local_file(url).__enter__()
    assert "hunter2" not in str(error.value)


def test_nothing_shows_user_password_or_query() -> None:
    assert mask_secrets(f"{_SIGNED_URL}: gone (a=b?c=d)") == (
        "https://***@host/log/rank3/t.json?***: gone (a=b?c=d)"
    )
    for key in ("key:a@b", "key:a/b", "key"):
        assert mask_secrets(f"no s3://{key}@bucket/x: a@b") == "no s3://***@bucket/x: a@b"
    assert mask_secrets("http://host:80/a@b") == "http://host:80/a@b"
    assert str(NotFoundError(f"'{_SIGNED_URL}'")) == "'https://***@host/log/rank3/t.json?***'"
    assert mask_secrets("s3://bucket/rank?.json") == "s3://bucket/rank?.json"
    assert mask_secrets("https://host/x#access_token=a: gone") == "https://host/x#***: gone"
    assert mask_secrets("https://host/x?a#token=b") == "https://host/x?***"
    assert mask_secrets("see https://host/page#part") == "see https://host/page#part"


def test_a_long_message_is_cut_after_its_secrets() -> None:
    message = f"{'x' * 180} s3://key:hunter2hunter2hunter2@bucket"
    with pytest.raises(RemoteError) as error, files.errors_of("memory://a"):
        raise OSError(message)
    assert "hunter2" not in str(error.value)


def test_a_missing_package_is_named() -> None:
    with pytest.raises(RemoteError, match=r"adlfs is not installed; pip install .* adlfs"):
        files.check_packages("simplecache::az://c/x")
    with pytest.raises(RemoteError, match=r"pip install 'gapless\[remote\]' gcsfs"):
        find_urls("gs://bucket/log", bool)
