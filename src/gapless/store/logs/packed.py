"""Packed records as columns: no Python for each record, however many there are."""

import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct

from gapless import wire
from gapless.model.trace import Int64

_CODES: Final = {"H": "<u2", "I": "<u4", "q": "<i8"}


def record_dtype(record: struct.Struct, fields: Sequence[str]) -> np.dtype[Any]:
    """Return the dtype of a packed record."""
    codes = re.sub(
        r"(\d+)(\w)",
        lambda repetition: repetition[2] * int(repetition[1]),
        record.format.lstrip("<"),
    )
    return np.dtype([(name, _CODES[code]) for name, code in zip(fields, codes, strict=True)])


MARK: Final = record_dtype(wire.MARK, wire.MARK_FIELDS)
BATCH: Final = record_dtype(wire.BATCH, wire.BATCH_FIELDS)
MARK_SUM: Final = record_dtype(wire.MARK_SUM, wire.MARK_SUM_FIELDS)
BATCH_SUM: Final = record_dtype(wire.BATCH_SUM, wire.BATCH_SUM_FIELDS)
DTYPES_BY_KIND: Final = {  # by kind of frame
    wire.MARKS: MARK,
    wire.BATCHES: BATCH,
    wire.MARK_SUMS: MARK_SUM,
    wire.BATCH_SUMS: BATCH_SUM,
}


class SlicedColumns(Struct, frozen=True):
    """Columns of the records of several processes, one process after the other."""

    columns: Mapping[str, Int64]
    ends: tuple[int, ...]  # where the records of each process end
    partial: int  # frames whose length is no multiple of a record's

    def columns_of(self, process: int) -> Mapping[str, Int64]:
        """Return the columns of one process."""
        start = self.ends[process - 1] if process else 0
        return {name: column[start : self.ends[process]] for name, column in self.columns.items()}


def unpack_columns(
    dtype: np.dtype[Any], processes: Sequence[Sequence[memoryview]]
) -> SlicedColumns:
    """Turn the bodies of packed frames, a list for each process, into columns."""
    size = dtype.itemsize
    full_bodies = [[body[: len(body) // size * size] for body in bodies] for bodies in processes]
    ends = np.cumsum([sum(map(len, bodies)) // size for bodies in full_bodies], dtype=np.int64)
    records = np.frombuffer(b"".join(body for bodies in full_bodies for body in bodies), dtype)
    return SlicedColumns(
        columns={name: _column(records[name]) for name in dtype.names or ()},
        ends=tuple(ends.tolist()),
        partial=sum(len(body) % size > 0 for bodies in processes for body in bodies),
    )


def _column(values: np.ndarray[Any, Any]) -> Int64:
    column = values.astype(np.int64)
    column.flags.writeable = False
    return column
