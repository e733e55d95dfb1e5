"""Pixels that are kept: those of the file as it is now, and all else as Pillow has it."""

from __future__ import annotations

import io
import os
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile
from torch.utils.data import DataLoader

from gapless.parts.caches import picture_cache
from gapless.parts.caches.memory_store import NOT_SHARED, MemoryStore
from gapless.parts.caches.picture_cache import cache_pictures
from tests.parts.caches.test_sample_cache import Stream
from tests.parts.test_jpeg_files import Folder, first_batch, jpeg, plain

if TYPE_CHECKING:
    from pathlib import Path

OPEN = Image.open


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """Keep pixels in this process."""
    monkeypatch.setattr(Image, "open", OPEN)
    monkeypatch.setattr(picture_cache, "on_first_kept", [])
    store = MemoryStore(16, 1, 1 << 20)
    picture_cache.open_cached(store)
    picture_cache.open_cached(store)
    return store


def encode(mode: str, kind: str) -> bytes:
    file = io.BytesIO()
    plain(jpeg()).convert(mode).save(file, kind)
    return file.getvalue()


@pytest.mark.parametrize(
    ("mode", "kind"), [("RGB", "JPEG"), ("L", "JPEG"), ("RGBA", "PNG"), ("RGB", "BMP")]
)
def test_pixels_are_kept_and_are_the_same(mode: str, kind: str, store: MemoryStore) -> None:
    hits: list[None] = []
    picture_cache.on_first_kept.append(lambda: hits.append(None))
    data = encode(mode, kind)
    expected = np.asarray(OPEN(io.BytesIO(data)))
    for count in (0, 1, 1):
        picture = Image.open(io.BytesIO(data))
        assert (picture.format, picture.mode, picture.size) == (kind, mode, (90, 60))
        np.testing.assert_array_equal(np.asarray(picture), expected)
        assert len(hits) == count
        picture.putpixel((0, 0), 255)
    assert store.n_kept == 1
    np.testing.assert_array_equal(
        np.asarray(pickle.loads(pickle.dumps(Image.open(io.BytesIO(data))))),  # noqa: S301
        expected,
    )


def test_a_file_that_is_written_anew_is_decoded_anew(tmp_path: Path, store: MemoryStore) -> None:
    path = tmp_path / "a.jpg"
    for seed, kept in ((0, 1), (0, 1), (1, 2)):
        if store.n_kept < kept:
            path.write_bytes(jpeg(seed))
            os.utime(path, ns=(seed, seed))
        picture = Image.open(path)
        np.testing.assert_array_equal(np.asarray(picture), np.asarray(plain(jpeg(seed))))
        assert picture.fp is None
        assert store.n_kept == kept
    with path.open("rb") as held:
        Image.open(held).load()
        assert not held.closed


def test_others_are_left_to_pillow(store: MemoryStore) -> None:
    assert type(Image.open(io.BytesIO(encode("CMYK", "JPEG")))) is JpegImageFile
    drafted = Image.open(io.BytesIO(jpeg()))
    drafted.draft("RGB", (45, 30))
    assert np.asarray(drafted).shape == (30, 45, 3)
    with pytest.raises(OSError, match="truncated"):
        Image.open(io.BytesIO(jpeg()[:-100])).load()
    frames = [Image.new("RGB", (4, 4), color) for color in ("red", "blue")]
    file = io.BytesIO()
    frames[0].save(file, "PNG", save_all=True, append_images=frames[1:])
    moving = Image.open(io.BytesIO(file.getvalue()))
    moving.seek(1)
    assert moving.getpixel((0, 0)) == (0, 0, 255)
    assert store.n_kept == 0


def test_workers_share_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "open", OPEN)
    expected = first_batch(DataLoader(Folder(tmp_path), 4, num_workers=1))
    loader: Any = cache_pictures(DataLoader(Folder(tmp_path), 4, num_workers=1))
    assert cache_pictures(loader) is loader
    assert first_batch(loader).equal(expected)
    for path in tmp_path.iterdir():  # what cannot be decoded any more, and looks as it was
        data, status = path.read_bytes(), path.stat()
        path.write_bytes(data[: len(data) // 2].ljust(len(data), b"\0"))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert first_batch(loader).equal(expected)


def test_workers_that_share_no_memory_are_refused(tmp_path: Path) -> None:
    loader = DataLoader(Folder(tmp_path), num_workers=1, multiprocessing_context="spawn")
    with pytest.raises(ValueError, match=NOT_SHARED):
        cache_pictures(loader)
    with pytest.raises(ValueError, match="how many pictures"):
        cache_pictures(DataLoader(Stream(), num_workers=1))
