"""Shards as they are written, each format record by record; what reads them is in ``parts``.

A writer has ``add(record)``, which returns where the record is, and ``close()``; or ``abandon()``:
the file is of no use then, and removed by whoever asked for it.
"""

from __future__ import annotations

import io
import os
import tarfile
from typing import TYPE_CHECKING, Any

from ..parts.packed_shards import LMDB_KEY, import_package
from ..parts.sample_codec import ALIGNMENT, as_tuples
from .files import close_file, drop_file
from .streamed import LitDataWriter, MdsWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .sources import SourceRecord

_KEY_DIGITS = 9
_LMDB_LARGEST = 1 << 40  # bytes: address space, not disk
_LMDB_BATCH = 32 << 20  # bytes of a transaction
_HDF5_STEP = 4 << 20  # bytes by which an array grows: one chunk
_NPY_MAGIC = b"\x93NUMPY\x01\x00"
_NPY_ALIGNMENT = 64


class FileWriter:
    """Records behind one another."""

    def __init__(self, path: str, _first: int, _count: int, _skeleton: Any) -> None:
        self._file = open(path, "wb")  # noqa: SIM115 - closed by close()
        self._offset = 0

    def add(self, record: SourceRecord) -> tuple[int, int]:
        """Write a record."""
        place = (self._offset, len(record.data))
        self._file.write(record.data)
        self._offset += len(record.data)
        return place

    def close(self) -> None:
        """Write what is left, down to the disk."""
        close_file(self._file)

    def abandon(self) -> None:
        """Close what will not be whole."""
        drop_file(self._file)


class NpyWriter:
    """A structured array of NumPy: ``np.load`` reads it, and each record is a span of the file."""

    def __init__(self, path: str, _first: int, count: int, skeleton: Any) -> None:
        self._file = open(path, "wb")  # noqa: SIM115
        fields, self._length = list_fields(skeleton)
        head = npy_head(fields, count)
        self._file.write(head)
        self._offset = len(head)

    def add(self, record: SourceRecord) -> tuple[int, int]:
        """Write a record."""
        place = (self._offset, self._length)
        self._file.write(record.data)
        self._offset += self._length
        return place

    def close(self) -> None:
        """Write what is left, down to the disk."""
        close_file(self._file)

    def abandon(self) -> None:
        """Close what will not be whole."""
        drop_file(self._file)


class TarWriter:
    """A tar in WebDataset's form: files whose names differ in their extension are a sample."""

    def __init__(self, path: str, first: int, _count: int, _skeleton: Any) -> None:
        self._file = open(path, "wb")  # noqa: SIM115
        self._tar = tarfile.open(fileobj=self._file, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._index = first

    def add(self, record: SourceRecord) -> tuple[int, int]:
        """Write the files of a record; of several the place of all, else of the first."""
        key = f"{self._index:0{_KEY_DIGITS}d}"
        self._index += 1
        if record.members is not None:
            start = self._tar.offset
            for extension, data in record.members:
                self._add_file(f"{record.name}.{extension}", data)
            return start, self._tar.offset - start
        place = self._add_file(f"{key}.{record.extension}", record.data)
        if record.label is not None:
            self._add_file(f"{key}.cls", str(record.label).encode())
        return place

    def close(self) -> None:
        """Write the end, down to the disk."""
        self._tar.close()
        close_file(self._file)

    def abandon(self) -> None:
        """Close what will not be whole."""
        drop_file(self._file)

    def _add_file(self, name: str, data: bytes) -> tuple[int, int]:
        member = tarfile.TarInfo(name)  # of no time and no owner: the same bytes each time
        member.size = len(data)
        self._tar.addfile(member, io.BytesIO(data))
        blocks = -(-len(data) // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
        return self._tar.offset - blocks, len(data)


class LmdbWriter:
    """A database of LMDB in one file, its keys the numbers of records in it."""

    def __init__(self, path: str, _first: int, _count: int, _skeleton: Any) -> None:
        self._database: Any = import_package("lmdb").open(
            path, subdir=False, map_size=_LMDB_LARGEST, lock=False, writemap=False, sync=True
        )
        self._transaction: Any = self._database.begin(write=True)
        self._row, self._pending = 0, 0

    def add(self, record: SourceRecord) -> tuple[int, int]:
        """Write a record."""
        self._transaction.put(LMDB_KEY.pack(self._row), record.data, append=True)
        self._row += 1
        self._pending += len(record.data)
        if self._pending > _LMDB_BATCH:
            self._transaction.commit()
            self._transaction, self._pending = self._database.begin(write=True), 0
        return 0, len(record.data)

    def close(self) -> None:
        """Commit, down to the disk."""
        self._transaction.commit()
        self._database.close()

    def abandon(self) -> None:
        """Close what will not be whole."""
        self._transaction.abort()
        self._database.close()


class Hdf5Writer:
    """An HDF5 file with one array of bytes, ``data``, in which records are slices.

    A record is read by one slice, whatever its length. Chunks of few megabytes would be read whole
    for each record, so the array is contiguous: it is written beside, and copied at the end.
    """

    def __init__(self, path: str, first: int, count: int, skeleton: Any) -> None:
        self._path = path
        self._library = import_package("hdf5")
        self._beside = FileWriter(f"{path}.bytes", first, count, skeleton)
        self._lengths: list[int] = []

    def add(self, record: SourceRecord) -> tuple[int, int]:
        """Write a record."""
        self._lengths.append(len(record.data))
        return self._beside.add(record)

    def close(self) -> None:
        """Write the file, down to the disk."""
        import numpy as np

        self._beside.close()
        with self._library.File(self._path, "w") as file, open(f"{self._path}.bytes", "rb") as raw:
            total = sum(self._lengths)
            data = file.create_dataset("data", (total,), "u1")
            for start in range(0, total, _HDF5_STEP):
                data[start : start + _HDF5_STEP] = np.frombuffer(raw.read(_HDF5_STEP), "u1")
            offsets = np.cumsum([0, *self._lengths], dtype="i8")
            file.create_dataset("offsets", data=offsets)
        os.unlink(f"{self._path}.bytes")
        with open(self._path, "rb") as file:
            os.fsync(file.fileno())

    def abandon(self) -> None:
        """Close what will not be whole."""
        self._beside.abandon()


WRITERS: dict[str, Any] = {
    "packed": FileWriter,
    "tar": TarWriter,
    "npy": NpyWriter,
    "mds": MdsWriter,
    "litdata": LitDataWriter,
    "lmdb": LmdbWriter,
    "hdf5": Hdf5Writer,
}


def npy_head(fields: list[Any], count: int) -> bytes:
    """Return the head of a .npy file: its array is of records with these fields."""
    described = ", ".join(repr(field) for field in fields)
    text = f"{{'descr': [{described}], 'fortran_order': False, 'shape': ({count},), }}"
    room = -(len(_NPY_MAGIC) + 2 + len(text) + 1) % _NPY_ALIGNMENT
    head = text.encode("latin1") + b" " * room + b"\n"
    return _NPY_MAGIC + len(head).to_bytes(2, "little") + head


def list_fields(skeleton: Any) -> tuple[list[Any], int]:
    """Return NumPy's fields of the records with this tree, and the length of a record in bytes.

    Between fields is room that has no name: each begins at a multiple of the alignment.
    """
    fields: list[Any] = []
    offset = 0
    for name, leaf in _list_leaves(skeleton, ""):
        length = leaf[_LENGTHS.get(leaf[0], -1)]
        if length:
            fields.append(_make_field(name or "sample", leaf, length))
        space = -length % ALIGNMENT
        if space:
            fields.append(("", f"|V{space}"))
        offset += length + space
    return fields, offset


_LENGTHS = {"P": 3}  # where the length of a leaf's buffer stands, if not last


def _list_leaves(node: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield what has a buffer, in order, each with its way through the tree as a name."""
    if type(node) is not list:
        return
    if node[0] in "tld":
        for index, child in enumerate(node[1]):
            name, value = child if node[0] == "d" else (index, child)
            yield from _list_leaves(value, f"{path}.{name}" if path else str(name))
    elif node[0] != "c":
        yield path, node


def _make_field(name: str, leaf: Any, length: int) -> Any:
    tag = leaf[0]
    if tag == "T":
        return name, _numpy_type(leaf[1]), tuple(leaf[2])
    if tag in "AS":
        return name, as_tuples(leaf[1]), tuple(leaf[2])
    if tag in _NUMBERS:
        return name, _NUMBERS[tag]
    return name, f"|V{length}"


_NUMBERS = {"o": "|b1", "i": "<i8", "f": "<f8"}
_PLAIN_NUMBERS = {"bool": "|b1", "bfloat16": "<u2"}  # NumPy has no bfloat16: its bits


def _numpy_type(name: str) -> str:
    """Return NumPy's type for a tensor's; what it has none for is whole numbers of its bits."""
    import numpy as np

    if name in _PLAIN_NUMBERS:
        return _PLAIN_NUMBERS[name]
    return "|u1" if name.startswith("float8") else np.dtype(name).str
