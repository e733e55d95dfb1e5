"""Sources of rows and of existing shards: CSV, Parquet, tar, each read by index.

``layout`` is what a first pass over a source found: the other workers are given it, and need none.
"""

from __future__ import annotations

import csv
import os
import tarfile
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ..parts.packed_shards import split_member
from ..parts.sample_codec import encode
from .sources import SourceError, SourceRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROWS_APART = 1024  # between rows whose place in a CSV file is remembered
csv.field_size_limit((1 << 31) - 1)  # a text may be long


class CsvTable:
    """Rows of a CSV or TSV file with a header: a dict of texts each, as they stand there."""

    kind = "samples"
    classes: list[str] | None = None

    def __init__(self, path: str, layout: Any = None) -> None:
        self.path = path
        self.notes = ["values of CSV stay texts: turn them into numbers in a transform"]
        self._dialect = "excel-tab" if path.lower().endswith(".tsv") else "excel"
        self._rows: Iterator[list[str]] = iter(())
        self._next_row = -1  # that the reader gives
        self._place = 0
        self._start(0)
        self._columns = next(self._rows, [])
        if self._columns and self._columns[0].startswith("\ufeff"):
            self._columns[0] = self._columns[0][1:]
        if len(set(self._columns)) < len(self._columns):
            raise SourceError(f"{path} has two columns of one name: {', '.join(self._columns)}")
        self.layout: dict[str, Any] = layout or self._scan()

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.layout["rows"]

    def record(self, index: int) -> SourceRecord:
        """Return a row as bytes. Raises ``ValueError`` if it has more or fewer fields."""
        if index != self._next_row:
            offset = self.layout["offsets"][index // _ROWS_APART]
            self._start(offset)
            for _ in range(index % _ROWS_APART):
                next(self._rows)
        self._next_row = index + 1
        row = next(self._rows)
        if len(row) != len(self._columns):
            raise ValueError(
                f"fields in the row: {len(row)}, in the header: {len(self._columns)}: "
                f"{','.join(row)[:80]!r}"
            )
        return SourceRecord(encode(dict(zip(self._columns, row))))

    def _start(self, offset: int) -> None:
        """Go to a place in the file, at which a row begins."""
        self._place = offset
        self._rows = (row for row in csv.reader(self._lines(offset), self._dialect) if row)

    def _lines(self, offset: int) -> Iterator[str]:
        with open(self.path, "rb") as file:
            file.seek(offset)
            for line in file:
                self._place += len(line)
                yield line.decode("utf-8")

    def _scan(self) -> dict[str, Any]:
        """Return how many rows there are, and where every so manyth begins."""
        rows, offsets, place = 0, list[int](), self._place
        for _ in self._rows:
            if rows % _ROWS_APART == 0:
                offsets.append(place)
            rows += 1
            place = self._place
        return {"rows": rows, "offsets": offsets}


class ParquetTable:
    """Rows of a Parquet file: a dict of values each."""

    kind = "samples"
    layout: Any = None
    classes: list[str] | None = None

    def __init__(self, path: str) -> None:
        try:
            import pyarrow.parquet as pq
        except ImportError:
            raise SourceError(f"{path} is read with pyarrow: pip install pyarrow") from None
        self.notes: list[str] = []
        self._file: Any = pq.ParquetFile(path)
        metadata = self._file.metadata
        counts = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self._ends = list(accumulate(counts))
        self._group = -1
        self._rows: list[dict[str, Any]] = []

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._ends[-1] if self._ends else 0

    def record(self, index: int) -> SourceRecord:
        """Return a row as bytes. Raises ``UnencodableError``."""
        group = bisect_right(self._ends, index)
        if group != self._group:
            self._group, self._rows = group, self._file.read_row_group(group).to_pylist()
        first = self._ends[group] - len(self._rows)
        return SourceRecord(encode(self._rows[index - first]))


class TarShards:
    """Samples of tar shards in WebDataset's form: files with one key are a sample."""

    kind = "files"
    classes: list[str] | None = None

    def __init__(self, paths: list[str], layout: Any = None) -> None:
        self.notes: list[str] = []
        self._paths = paths
        self._spans: dict[int, list[list[Any]]] = {}  # of samples: key, [extension, start, length]
        self.layout: list[int] = layout or [len(self._scan(shard)) for shard in range(len(paths))]
        self._ends = list(accumulate(self.layout))

    def __len__(self) -> int:
        """Return the number of samples."""
        return self._ends[-1] if self._ends else 0

    def record(self, index: int) -> SourceRecord:
        """Return the files of a sample."""
        shard = bisect_right(self._ends, index)
        samples = self._scan(shard)
        key, spans = samples[index - (self._ends[shard] - len(samples))]
        members: list[tuple[str, bytes]] = []
        with open(self._paths[shard], "rb") as file:
            for extension, start, length in spans:
                file.seek(start)
                members.append((extension, file.read(length)))
        sample = {"__key__": key, **dict(members)}
        return SourceRecord(encode(sample), None, key, "", members)

    def _scan(self, shard: int) -> list[list[Any]]:
        """Return where the samples of a shard are; read once."""
        if shard not in self._spans:
            samples: list[list[Any]] = []
            for member in _read_members(self._paths[shard]):
                key, extension = split_member(member.name)
                if not samples or samples[-1][0] != key:
                    samples.append([key, []])
                samples[-1][1].append((extension, member.offset_data, member.size))
            self._spans = {shard: samples}  # of one: a process goes through them in order
        return self._spans[shard]


def _read_members(path: str) -> list[tarfile.TarInfo]:
    try:
        with tarfile.open(path, "r:") as members:
            return [member for member in members if member.isfile()]
    except tarfile.TarError as error:
        raise SourceError(f"{path} is no tar, or a compressed or cut one: {error}") from None


def find_tars(path: str) -> list[str]:
    """Return the tar files of a folder, in the order of their names."""
    return sorted(entry.path for entry in os.scandir(path) if entry.name.endswith(".tar"))
