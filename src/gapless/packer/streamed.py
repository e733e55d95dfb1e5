"""Shards of MosaicML Streaming and of LitData, and the ``index.json`` that these find them by.

Written without these packages. A sample is ``data``, the bytes of its record, and of images in
classes ``label``.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

from .files import close_file, drop_file
from .sources import SourceError

if TYPE_CHECKING:
    from .sources import SourceRecord

_LARGEST_SHARD = (1 << 32) - 1  # bytes: offsets have 32 bits


class MdsWriter:
    """A shard of MosaicML Streaming, version 2, written without that package.

    A number of samples, their offsets, the description of columns (JSON), then the samples: the
    length of ``data``, ``data``, and of images in classes ``label``.
    """

    def __init__(self, path: str, _first: int, count: int, _skeleton: Any) -> None:
        self._file = open(path, "wb")  # noqa: SIM115
        self._count = count
        self._has_labels: bool | None = None
        self._offsets: list[int] = []

    def add(self, record: SourceRecord) -> tuple[int, int]:
        """Write a record."""
        if self._has_labels is None:
            self._has_labels = _has_label(record)
            head = 4 * (self._count + 2) + len(self._columns())
            self._file.write(bytes(head))
            self._offsets.append(head)
        place = (self._offsets[-1] + 4, len(record.data))
        label = struct.pack("<q", record.label) if self._has_labels else b""
        end = sum(place) + len(label)
        if end > _LARGEST_SHARD:
            raise SourceError("a shard of MDS holds at most 4 GiB: --shard-size 1G")
        self._file.write(struct.pack("<I", len(record.data)) + record.data + label)
        self._offsets.append(end)
        return place

    def close(self) -> None:
        """Write what is left, down to the disk."""
        self._file.seek(0)
        numbers = (self._count, *self._offsets)
        self._file.write(struct.pack(f"<{len(numbers)}I", *numbers) + self._columns())
        close_file(self._file)

    def abandon(self) -> None:
        """Close what will not be whole."""
        drop_file(self._file)

    def _columns(self) -> bytes:
        return json.dumps(_mds_columns(has_labels=bool(self._has_labels)), sort_keys=True).encode()


class LitDataWriter:
    """A chunk of LitData, as its ``PyTreeLoader`` reads it, written without that package.

    A number of samples and their offsets, of 32 bits each; then the samples: the lengths of their
    leaves, and these: ``data``, and of images in classes ``label``, 64 bits.
    """

    def __init__(self, path: str, _first: int, count: int, _skeleton: Any) -> None:
        self._file = open(path, "wb")  # noqa: SIM115
        self._offsets = [4 * (count + 2)]
        self._file.write(bytes(self._offsets[0]))

    def add(self, record: SourceRecord) -> tuple[int, int]:
        """Write a record."""
        length = len(record.data)
        label = b"" if not _has_label(record) else struct.pack("<q", record.label)
        head = struct.pack("<2I", length, len(label)) if label else struct.pack("<I", length)
        start = self._offsets[-1] + len(head)
        end = start + length + len(label)
        if end > _LARGEST_SHARD:
            raise SourceError("a chunk of LitData holds at most 4 GiB: --shard-size 1G")
        self._file.write(head + record.data + label)
        self._offsets.append(end)
        return start, length

    def close(self) -> None:
        """Write what is left, down to the disk."""
        self._file.seek(0)
        count = len(self._offsets) - 1
        self._file.write(struct.pack(f"<{count + 2}I", count, *self._offsets))
        close_file(self._file)

    def abandon(self) -> None:
        """Close what will not be whole."""
        drop_file(self._file)


def _has_label(record: SourceRecord) -> bool:
    return record.label is not None and record.extension != "sample"


def mds_index(shards: list[dict[str, Any]], *, has_labels: bool) -> dict[str, Any]:
    """Return the index of MosaicML Streaming."""
    entries = [
        {
            **_mds_columns(has_labels=has_labels),
            "raw_data": {"basename": shard["file"], "bytes": shard["bytes"], "hashes": {}},
            "samples": shard["samples"],
            "zip_data": None,
        }
        for shard in shards
    ]
    return {"shards": entries, "version": 2}


def litdata_index(shards: list[dict[str, Any]], *, has_labels: bool) -> dict[str, Any]:
    """Return the index of LitData."""
    leaf: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
    names = json.dumps(["data", "label"])
    tree = {"type": "builtins.dict", "context": names, "children_spec": [leaf, leaf]}
    return {
        "chunks": [
            {
                "chunk_bytes": shard["bytes"],
                "chunk_size": shard["samples"],
                "dim": None,
                "filename": shard["file"],
            }
            for shard in shards
        ],
        "config": {
            "chunk_bytes": max((shard["bytes"] for shard in shards), default=0),
            "chunk_size": None,
            "compression": None,
            "data_format": ["bytes", "int"] if has_labels else ["bytes"],
            "data_spec": json.dumps([1, tree if has_labels else leaf]),
            "encryption": None,
            "item_loader": "PyTreeLoader",
        },
        "updated_at": "0",  # the same bytes each time
    }


INDICES: dict[str, Any] = {"mds": mds_index, "litdata": litdata_index}


def _mds_columns(*, has_labels: bool) -> dict[str, Any]:
    """Return what a shard of MosaicML Streaming says of its columns."""
    return {
        "column_encodings": ["bytes", "int"] if has_labels else ["bytes"],
        "column_names": ["data", "label"] if has_labels else ["data"],
        "column_sizes": [None, 8] if has_labels else [None],
        "compression": None,
        "format": "mds",
        "hashes": [],
        "size_limit": None,
        "version": 2,
    }
