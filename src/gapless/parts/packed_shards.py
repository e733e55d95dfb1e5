"""Shards of a packed data set, each format read one record at a time, in any order.

A shard has an index (``.idx``): for each record its offset in the file, its length and its label,
as little-endian integers of 64 bits. Files are opened when they are first read, in each process:
after a fork nothing is shared but the pages that the kernel keeps.
"""

from __future__ import annotations

import io
import mmap
import os
import shutil
import struct
from http import HTTPStatus
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import urlopen

NO_LABEL = -(1 << 63)
_CHUNK = 1 << 20  # bytes that are copied at a time
_ATTEMPTS = 3  # to copy a file whole
_TIMEOUT_S = 60.0  # of a server that says nothing
ROW = struct.Struct("<qqq")  # offset, bytes, label
LMDB_KEY = struct.Struct(">q")  # the number of a record in its shard
PACKAGES = {"lmdb": "lmdb", "hdf5": "h5py"}  # what a format is read with
SUFFIXES = {
    "packed": ".bin",
    "tar": ".tar",
    "npy": ".npy",
    "mds": ".mds",
    "litdata": ".bin",
    "lmdb": ".lmdb",
    "hdf5": ".h5",
}


def is_url(path: str) -> bool:
    """Return whether packed data are behind an URL."""
    return "://" in path


def open_far(url: str) -> Any:
    """Open a file behind an URL by fsspec; of the web by Python itself where that lacks a package.

    Raises ``FileNotFoundError``, ``ImportError`` without fsspec, and what either raises.
    """
    parts = urlsplit(url)
    has_fsspec = all(find_spec(package) for package in ("fsspec", "aiohttp"))
    if parts.scheme in ("http", "https") and not has_fsspec and parts.username is None:
        plain_url = parts._replace(path=quote(parts.path, safe="/%")).geturl()
        try:
            return urlopen(plain_url, timeout=_TIMEOUT_S)  # noqa: S310 - of the web alone
        except HTTPError as error:
            if error.code == HTTPStatus.NOT_FOUND:
                raise FileNotFoundError(url) from None
            raise
    return import_module("fsspec").open(url, "rb").open()


def find_file(path: str, name: str, cache: str | None, n_bytes: int) -> str:
    """Return the path of a file of packed data; of data behind an URL, of its copy in ``cache``.

    Copied whole, once: workers that need it at the same time copy it each, and the last one stays.
    """
    if cache is None:
        return os.path.join(path, name)
    copy = os.path.join(cache, name)
    if not os.path.exists(copy) or os.path.getsize(copy) != n_bytes:
        os.makedirs(cache, exist_ok=True)
        unfinished = f"{copy}.{os.getpid()}.part"
        for _ in range(_ATTEMPTS):
            with open_far(f"{path}/{name}") as source, open(unfinished, "wb") as target:
                shutil.copyfileobj(source, target, _CHUNK)
            if os.path.getsize(unfinished) == n_bytes:
                break
        else:
            size = os.path.getsize(unfinished)
            os.unlink(unfinished)
            raise OSError(
                f"{path}/{name} gave {size} bytes, and was written with {n_bytes}, "
                f"{_ATTEMPTS} times: it is cut short, or the data were packed anew"
            )
        os.replace(unfinished, copy)
    return copy


def check_size(path: str, n_bytes: int) -> None:
    """Raise ``ValueError`` if a file of packed data is longer or shorter than it was written."""
    size = os.path.getsize(path)
    if size != n_bytes:
        raise ValueError(f"{path} has {size} bytes, and was written with {n_bytes}: pack it again")


class IndexRow(NamedTuple):
    """Where a record is in the file of its shard, and its label (``NO_LABEL``: it has none)."""

    offset: int
    length: int
    label: int


class ShardIndex:
    """The index of a shard: mapped, so that processes share it."""

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            is_empty = not os.fstat(file.fileno()).st_size
            self._rows: Any = (
                b"" if is_empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            )

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self._rows) // ROW.size

    def __getitem__(self, row: int) -> IndexRow:
        """Return where a record is."""
        return IndexRow(*ROW.unpack_from(self._rows, row * ROW.size))

    def close(self) -> None:
        """Close the map."""
        if self._rows:
            self._rows.close()


class SpanShard:
    """A shard whose records are spans of a file: packed, tar, npy, mds, litdata."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

    def read(self, _row: int, place: IndexRow) -> bytearray:
        """Return the bytes of a record. Raises ``EOFError`` if the file ends before."""
        record = bytearray(place.length)
        if _read_into(self._file, record, place.offset) != place.length:
            raise EOFError(f"the shard ends before the record at {place.offset}")
        return record

    def prefetch(self, place: IndexRow) -> None:
        """Have the kernel begin to read a record."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._file, place.offset, place.length, os.POSIX_FADV_WILLNEED)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class LmdbShard:
    """A shard that is a database of LMDB.

    With the kernel's read-ahead: without it each page of a record that is not in memory is waited
    for on its own. Without a lock: nobody writes to it.
    """

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path)
        self._database = _open_database(self._path)
        self._transaction: Any = self._database.begin(buffers=True)

    def read(self, row: int, _place: IndexRow) -> bytearray:
        """Return the bytes of a record."""
        return bytearray(self._transaction.get(LMDB_KEY.pack(row)))

    def prefetch(self, _place: IndexRow) -> None:
        """Do nothing: the map has its own read-ahead."""

    def close(self) -> None:
        """Close the database, and with it the map, unless another data set reads from it."""
        self._transaction.abort()
        _leave_database(self._path, self._database)


class _SharedDatabase(NamedTuple):
    """A database that is open: LMDB forbids to open it once more in a process."""

    process: int
    database: Any
    readers: int


_databases: dict[str, _SharedDatabase] = {}


def _open_database(path: str) -> Any:
    """Return a database that this process reads from; several data sets share it."""
    shared = _databases.get(path)
    if shared is not None and shared.process == os.getpid():
        _databases[path] = shared._replace(readers=shared.readers + 1)
        return shared.database
    if shared is not None:  # from before a fork
        shared.database.close()
    database = import_package("lmdb").open(
        path, subdir=False, readonly=True, lock=False, readahead=True, max_dbs=0
    )
    _databases[path] = _SharedDatabase(os.getpid(), database, 1)
    return database


def _leave_database(path: str, database: Any) -> None:
    shared = _databases.get(path)
    if shared is None or shared.database is not database:
        return
    if shared.readers > 1:
        _databases[path] = shared._replace(readers=shared.readers - 1)
    else:
        del _databases[path]
        database.close()


class Hdf5Shard:
    """A shard that is an HDF5 file: one array of bytes, ``data``, of which records are slices."""

    def __init__(self, path: str) -> None:
        self._file: Any = import_package("hdf5").File(path, "r")
        self._data: Any = self._file["data"]

    def read(self, _row: int, place: IndexRow) -> Any:
        """Return the bytes of a record."""
        if not place.length:
            return bytearray()
        return memoryview(self._data[place.offset : place.offset + place.length])

    def prefetch(self, _place: IndexRow) -> None:
        """Do nothing: HDF5 has the file to itself."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()


SHARDS: dict[str, Any] = {
    "packed": SpanShard,
    "tar": SpanShard,
    "npy": SpanShard,
    "mds": SpanShard,
    "litdata": SpanShard,
    "lmdb": LmdbShard,
    "hdf5": Hdf5Shard,
}


def import_package(name: str) -> Any:
    """Import what a format is read with. Raises ``ImportError`` with what to install."""
    package = PACKAGES[name]
    try:
        return import_module(package)
    except ImportError as error:
        raise ImportError(
            f"data packed as {name} are read with {package}, which cannot be imported ({error}): "
            f"pip install {package}, or pip install 'gapless[pack]'"
        ) from error


def parse_members(record: Any) -> dict[str, Any]:
    """Return the files of a sample in a tar, by what stands behind the first dot of their names."""
    import tarfile  # noqa: PLC0415 - samples of one file are read without it

    sample: dict[str, Any] = {}
    with tarfile.open(fileobj=io.BytesIO(record), mode="r:") as members:
        for member in members:
            key, extension = split_member(member.name)
            content = members.extractfile(member)
            sample["__key__"] = key
            sample[extension] = b"" if content is None else content.read()
    return sample


def split_member(name: str) -> tuple[str, str]:
    """Return the key of a member of a tar, and its extension: WebDataset's rule."""
    folder, slash, file = name.rpartition("/")
    stem, _, extension = file.partition(".")
    return f"{folder}{slash}{stem}", extension


def _read_into(file: int, record: bytearray, offset: int) -> int:
    """Read until a record is full; return how many bytes there were."""
    view, count = memoryview(record), 0
    while count < len(record):
        step = _read_once(file, view[count:], offset + count)
        if not step:
            break
        count += step
    return count


def _read_once(file: int, view: memoryview, offset: int) -> int:
    if hasattr(os, "preadv"):
        return os.preadv(file, [view], offset)
    data: bytes | None = os.pread(file, len(view), offset)
    view[: len(data)] = data
    return len(data)
