"""Keep the files that a data set reads from a slow place in a folder on a local disk."""

from __future__ import annotations

import builtins
import contextlib
import functools
import glob
import hashlib
import io
import os
import shutil
import stat
import tempfile
import time
from typing import Any, Callable

from ..read_ahead import find_file_dataset, list_paths

_SHARE = 2  # of what is free: a half is taken at most
_PIECE = 1 << 20  # bytes that are copied at once
_MODES = ("r", "rb", "rt")
_UNFINISHED = ".part"  # of a file that is being copied
_MAX_COPYING_S = 3600.0  # an older one is of a process that was killed

# Called in each process with the first file that was there.
on_first_kept: list[Callable[[], None]] = []


def cache_files(loader: Any, folder: str) -> Any:
    """Let the files of a ``DataLoader``'s data set be read from where they lie once; return it.

    ``loader = cache_files(DataLoader(…, num_workers=8), "/local/photos")``: what Python code in its
    workers opens to read, below the folder that all files of the data set are in, is copied to
    ``folder`` first, and opened there, in later runs too. Raises ``ValueError`` where there are no
    workers, or the data set has no list of files.
    """
    if not isinstance(loader.worker_init_fn, InitFiles):
        obstacle = find_file_obstacle(loader)
        if obstacle is not None:
            raise ValueError(obstacle)
        cache = FileCache(find_root(loader.dataset), folder)
        loader.worker_init_fn = InitFiles(loader.worker_init_fn, cache)
    return loader


def find_file_obstacle(loader: Any) -> str | None:
    """Return why the files of a loader cannot be kept; None: nothing is known of."""
    if not loader.num_workers:
        return "it has no workers"
    if find_file_dataset(loader.dataset) is None:
        return "its data set has no list of files, one for each sample"
    return None


def find_root(dataset: Any) -> str:
    """Return the folder that all files of a data set are in."""
    return os.path.commonpath({os.path.dirname(os.path.abspath(p)) for p in list_files(dataset)})


def list_files(dataset: Any) -> list[Any]:
    """Return the paths of a data set's files, one for each sample."""
    return list_paths(find_file_dataset(dataset))


class InitFiles:
    """A ``worker_init_fn`` after which files are opened where they are kept."""

    def __init__(self, worker_init_fn: Callable[[int], None] | None, cache: FileCache) -> None:
        self.worker_init_fn, self.cache = worker_init_fn, cache

    def __call__(self, worker: int) -> None:
        """Begin a worker."""
        if self.worker_init_fn is not None:
            self.worker_init_fn(worker)
        open_kept(self.cache)


class FileCache:
    """Copies of files below ``root``, in a folder that may be there from an earlier run.

    A copy is known by its file's path, size and time. Of a file that was written anew, the older
    one is removed. At most a half of what is free on the disk at the beginning is filled.
    """

    def __init__(self, root: str, folder: str) -> None:
        self.root, self.folder = os.path.abspath(root), os.path.abspath(folder)
        os.makedirs(self.folder, exist_ok=True)
        self.reserve = shutil.disk_usage(self.folder).free // _SHARE
        self.n_kept = 0  # by this process
        self._is_full = False
        self._remove_parts()

    def find_copy(self, path: Any) -> str | None:
        """Return the copy of a file, made if it is not there; None: there is none."""
        path = os.path.abspath(os.fsdecode(path))
        if not path.startswith(self.root + os.sep):
            return None
        try:
            status = os.stat(path)
            if not stat.S_ISREG(status.st_mode):
                return None
            name = hashlib.blake2b(os.fsencode(path), digest_size=16).hexdigest()
            stem = os.path.join(self.folder, name[:2], name[2:])
            copy = f"{stem}.{status.st_size}-{status.st_mtime_ns}"
            if os.path.exists(copy):
                if on_first_kept:
                    on_first_kept.pop()()
                return copy
            return copy if self._copy(path, copy, status.st_size, stem) else None
        except OSError:  # whoever opens it says what is wrong
            return None

    def _copy(self, path: str, copy: str, size: int, stem: str) -> bool:
        """Copy a file; return whether there was room, and it did not change meanwhile."""
        if self._is_full or shutil.disk_usage(self.folder).free < self.reserve + size:
            self._is_full = True
            return False
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        number, name = tempfile.mkstemp(suffix=_UNFINISHED, dir=os.path.dirname(copy))
        os.close(number)
        try:
            with io.FileIO(path) as source, io.FileIO(name, "wb") as target:  # not by ``open``
                shutil.copyfileobj(source, target, _PIECE)
            is_whole = os.path.getsize(name) == size
            if is_whole:
                older = glob.glob(glob.escape(stem) + ".*")
                os.replace(name, copy)
                name = ""
                self._remove(older)
        finally:
            self._remove([name] if name else [])
        self.n_kept += is_whole
        return is_whole

    def _remove_parts(self) -> None:
        paths = glob.glob(os.path.join(glob.escape(self.folder), "*", f"*{_UNFINISHED}"))
        self._remove([path for path in paths if time.time() - _modified_s(path) > _MAX_COPYING_S])

    def _remove(self, paths: list[str]) -> None:
        for path in paths:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _modified_s(path: str) -> float:
    try:
        return os.path.getmtime(path)
    except OSError:
        return time.time()


def open_kept(cache: FileCache) -> None:
    """Let files be opened where they are kept, in this process."""
    original: Any = builtins.open
    if getattr(original, "opens_copies", False):
        return

    @functools.wraps(original)
    def open_copy(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        is_read = mode in _MODES and isinstance(file, (str, bytes, os.PathLike))
        copy = cache.find_copy(file) if is_read else None
        return original(file if copy is None else copy, mode, *args, **kwargs)

    vars(open_copy)["opens_copies"] = True
    builtins.open = io.open = open_copy
