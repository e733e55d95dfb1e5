"""Files of a slow place are copied to a local folder once, and opened there."""

from __future__ import annotations

import builtins
import io
import os
from typing import TYPE_CHECKING, Any

import pytest
from torch.utils.data import DataLoader, Dataset

from gapless.parts.caches import file_cache
from gapless.parts.caches.file_cache import FileCache, cache_files, open_kept

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


class Texts(Dataset[str]):
    def __init__(self, root: Path) -> None:
        for number in range(4):
            (root / f"kind{number % 2}").mkdir(parents=True, exist_ok=True)
            (root / f"kind{number % 2}" / f"{number}.txt").write_text(f"text {number}")
        self.files = sorted(root.rglob("*.txt"))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> str:
        return self.files[index].read_text()


@pytest.fixture
def _opens_as_ever() -> Generator[None]:
    original = builtins.open
    yield
    builtins.open = io.open = original
    file_cache.on_first_kept.clear()


def copies(folder: Path) -> list[str]:
    return sorted(path.read_text() for path in folder.glob("*/*"))


def test_workers_copy_each_file_once(tmp_path: Path) -> None:
    dataset = Texts(tmp_path / "far")
    expected = [dataset[index] for index in range(4)]
    loader: Any = cache_files(DataLoader(dataset, 2, num_workers=1), str(tmp_path / "near"))
    assert cache_files(loader, "elsewhere") is loader
    assert [text for batch in loader for text in batch] == expected
    assert copies(tmp_path / "near") == sorted(expected)
    assert not hasattr(builtins.open, "opens_copies")


@pytest.mark.usefixtures("_opens_as_ever")
def test_copies_are_read_until_their_files_change(tmp_path: Path) -> None:
    file = Texts(tmp_path / "far").files[0]
    cache = FileCache(str(tmp_path / "far"), str(tmp_path / "near"))
    reports: list[None] = []
    file_cache.on_first_kept.append(lambda: reports.append(None))
    open_kept(cache)
    open_kept(cache)
    assert file.read_text() == "text 0"
    (copy,) = (tmp_path / "near").glob("*/*")
    assert reports == []
    copy.write_text("copied")
    assert file.read_text() == "copied", "it is opened there"
    assert reports == [None]
    file.write_text("new text")
    assert file.read_text() == "new text"
    assert copies(tmp_path / "near") == ["new text"], "the older copy is gone"
    with pytest.raises(FileNotFoundError, match="far/none"):
        (tmp_path / "far/none").read_text()
    (tmp_path / "beside").write_text("not below its root")
    assert (tmp_path / "beside").read_text() == "not below its root"
    assert cache.n_kept == 2


def test_no_more_is_taken_than_half_of_the_disk(tmp_path: Path) -> None:
    file = Texts(tmp_path / "far").files[0]
    folder = tmp_path / "near"
    (folder / "ab").mkdir(parents=True)
    for name, age_s in (("old.part", 9e9), ("young.part", 0)):
        (folder / "ab" / name).touch()
        if age_s:
            os.utime(folder / "ab" / name, (0, 0))
    cache = FileCache(str(tmp_path / "far"), str(folder))
    assert [path.name for path in folder.glob("*/*")] == ["young.part"]
    cache.reserve = 1 << 60
    assert cache.find_copy(file) is None
    assert cache.n_kept == 0


def test_what_has_no_files_or_workers_is_refused(tmp_path: Path) -> None:
    loaders: list[tuple[Any, str]] = [
        (DataLoader(Texts(tmp_path)), "no workers"),
        (DataLoader([1, 2], num_workers=1), "no list of files"),  # pyright: ignore[reportArgumentType]
    ]
    for loader, why in loaders:
        with pytest.raises(ValueError, match=why):
            cache_files(loader, str(tmp_path / "near"))


def test_files_behind_an_url_are_kept_by_fsspec_itself(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.pipe("/far/a.bin", b"pixels")
    contents: list[bytes] = []
    for _ in range(2):
        options = {"cache_storage": str(tmp_path)}
        with fsspec.open("filecache::memory://far/a.bin", filecache=options) as file:
            contents.append(file.read())
        if memory.exists("/far/a.bin"):
            memory.rm("/far/a.bin")
    assert contents == [b"pixels", b"pixels"]
