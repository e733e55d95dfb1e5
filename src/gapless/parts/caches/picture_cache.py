"""Keep the pixels of pictures that Pillow decodes, in memory that workers share."""

from __future__ import annotations

import functools
import hashlib
import io
import os
from typing import Any, Callable

from PIL import Image
from torch.utils.data import IterableDataset

from .memory_store import NOT_SHARED, MemoryStore, shares_memory

_FORMATS = ("JPEG", "PNG", "BMP")
_MODES = ("L", "RGB", "RGBA")

# Called in each process with the first picture whose pixels were there.
on_first_kept: list[Callable[[], None]] = []


def cache_pictures(loader: Any) -> Any:
    """Let the pictures that a ``DataLoader`` decodes be decoded once; return the loader.

    ``loader = cache_pictures(DataLoader(…, num_workers=8))``: in its workers, pixels of what
    ``PIL.Image.open`` gives are kept once they are decoded, in memory that the workers share, at
    most a half of what is free. From the second epoch on they are taken from there. What is done
    with a picture, at random or not, is done as ever. Raises ``ValueError`` where workers are not
    forked.
    """
    if loader.num_workers and not isinstance(loader.worker_init_fn, InitPictures):
        obstacle = find_picture_obstacle(loader)
        if obstacle is not None:
            raise ValueError(obstacle)
        loader.worker_init_fn = InitPictures(loader.worker_init_fn, make_store(loader))
    return loader


def find_picture_obstacle(loader: Any) -> str | None:
    """Return why the pictures of a loader cannot be kept; None: nothing is known of."""
    dataset = loader.dataset
    if isinstance(dataset, IterableDataset) or not hasattr(type(dataset), "__len__"):
        return "how many pictures it has is not known"
    return None if shares_memory(loader) else NOT_SHARED


def make_store(loader: Any) -> MemoryStore:
    """Return the memory for the pictures of a loader."""
    return MemoryStore(len(loader.dataset), loader.num_workers)


class InitPictures:
    """A ``worker_init_fn`` after which pixels are kept."""

    def __init__(self, worker_init_fn: Callable[[int], None] | None, store: MemoryStore) -> None:
        self.worker_init_fn, self.store = worker_init_fn, store

    def __call__(self, worker: int) -> None:
        """Begin a worker."""
        if self.worker_init_fn is not None:
            self.worker_init_fn(worker)
        open_cached(self.store)


def open_cached(store: MemoryStore) -> None:
    """Let the pixels of what ``PIL.Image.open`` gives be kept, in this process."""
    original = Image.open
    if getattr(original, "keeps_pixels", False):
        return

    @functools.wraps(original)
    def open_picture(*args: Any, **kwargs: Any) -> Any:
        picture = original(*args, **kwargs)
        if picture.format in _FORMATS and picture.mode in _MODES and picture.tile:
            kind = _derive_class(type(picture))
            if kind is not None and not getattr(picture, "is_animated", False):
                picture.__class__ = kind
                vars(picture).update(store=store, shape_of_file=(picture.mode, picture.size))
        return picture

    vars(open_picture)["keeps_pixels"] = True
    Image.open = open_picture


@functools.cache
def _derive_class(kind: type) -> type | None:
    """Return a class of Pillow's whose pixels are kept; None: it is none of Pillow's own."""
    if not kind.__module__.startswith("PIL."):
        return None
    return type(kind.__name__, (CachedFile, kind), {"__module__": __name__})


class CachedFile:
    """A file that is opened, and whose pixels are kept when they were asked for."""

    def load(self) -> Any:
        """Take the pixels from where they are kept; else decode and keep them."""
        picture: Any = self
        parent: Any = super()
        store: Any = vars(self).pop("store", None)
        shape: Any = vars(self).pop("shape_of_file", None)
        is_as_opened = picture.tile and (picture.mode, picture.size) == shape
        key = _find_key(picture.fp) if is_as_opened else None
        if store is None or key is None:
            return parent.load()
        pixels = store.get(key)
        if pixels is None:
            result = parent.load()
            store.put(key, picture.tobytes())
            return result
        if on_first_kept:
            on_first_kept.pop()()
        picture.im = Image.frombytes(*shape, bytes(pixels)).im
        picture.tile = []
        if getattr(picture, "_exclusive_fp", False):
            picture.fp.close()
        picture.fp = None
        return parent.load()

    def __reduce__(self) -> Any:
        """Pickle it decoded."""
        picture: Any = self
        return _keep_copy, (picture.copy(),)


def _keep_copy(picture: Any) -> Any:
    return picture


def _find_key(file: Any) -> bytes | None:
    """Return what tells a file from others, and from what it was before; None: nothing does."""
    if isinstance(file, io.BytesIO):
        return hashlib.blake2b(file.getbuffer(), digest_size=16).digest()
    try:
        status = os.fstat(file.fileno())
    except (OSError, AttributeError, ValueError):
        return None
    values = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    return repr(values).encode()
