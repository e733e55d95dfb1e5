"""Convert the windows in records to packed columns, in place: a seventh of the profiler's JSON.

A record is replaced only after it was read again and each window gave the same trace as before,
compared column by column and table by table. All other files in a record keep their bytes::

    python -m benchmarks.pack_records [--check ORIGINALS] [RECORD …]
    python -m benchmarks.pack_records --tick 8 RECORD …
    python -m benchmarks.pack_records --traces FILE …

With ``--tick``, times in windows are rounded down to multiples of so many nanoseconds, which takes
a quarter off a window: the clock that the profiler reads ticks in about 10 ns, those of GPUs in 32.
Nothing else may change. With ``--check``, nothing is written: the records are compared with those
of another tree, such as a checkout from before the conversion. With ``--traces``, each file of a
profiler is replaced by its columns, ``x.json.gz`` by ``x.json.columns``, after the same comparison.
"""

import argparse
import io
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final

import numpy as np
import zstandard
from msgspec.structs import replace

from gapless.capture.reading import read_trace
from gapless.model.trace import Trace
from gapless.store import columns
from gapless.store.atomic import write_atomically
from gapless.store.trace_tables import column_groups, make_tables

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDERS: Final = (Path("tests/zoo/records"), Path("tests/strangers/records"))
NAME: Final = "run.tar.zst"
_LEVEL: Final = 22  # of zstandard; a record is written once and read often
_TEXT_SUFFIXES: Final = (".gz", ".zst")
_Members = Mapping[str, bytes]


class UnequalError(Exception):
    """Two records differ."""


def pack_windows(record: Path, tick_ns: int = 1) -> None:
    """Convert the windows of a record in place, their times as multiples of a tick.

    Raises ``UnequalError`` if a trace would not be the same; the record is unchanged then.
    """
    members = _read_members(record)
    packed_members = dict(_pack_member(name, body, tick_ns) for name, body in members.items())
    with write_atomically(record) as unfinished:
        unfinished.write_bytes(_write_members(packed_members))
        compare_records(record, unfinished, tick_ns)


def pack_trace(path: Path) -> Path:
    """Replace the file of a profiler by its packed columns; return the path of these.

    Raises ``UnequalError`` if the trace would not be the same; the file is unchanged then.
    """
    trace = read_trace(path, processes=1)
    packed_path = path.with_suffix(columns.SUFFIX)
    with write_atomically(packed_path) as unfinished:
        unfinished.write_bytes(columns.encode_trace(trace))
        if unequal := list(_unequal_parts(trace, columns.load(unfinished))):
            raise UnequalError(f"{path}: {', '.join(unequal)}")
    path.unlink()
    return packed_path


def compare_records(record: Path, other_record: Path, tick_ns: int = 1) -> None:
    """Compare two records, whatever the format of their windows. Raises ``UnequalError``.

    The times of the first are taken as multiples of a tick.
    """
    members, other_members = (
        {_bare_name(name): (name, body) for name, body in _read_members(path).items()}
        for path in (record, other_record)
    )
    if list(members) != list(other_members):
        raise UnequalError(f"{record}: {sorted(members)} are not {sorted(other_members)}")
    for bare_name, (name, body) in members.items():
        other_name, other_body = other_members[bare_name]
        if body == other_body and name == other_name:
            continue
        trace = round_times(_read(name, body), tick_ns)
        unequal = list(_unequal_parts(trace, _read(other_name, other_body)))
        if unequal:
            raise UnequalError(f"{record}: {name}: {', '.join(unequal)}")


def _read_members(record: Path) -> _Members:
    with (
        record.open("rb") as file,
        zstandard.ZstdDecompressor().stream_reader(file) as plain,
        tarfile.open(fileobj=plain, mode="r|") as archive,
    ):
        return {
            member.name: body.read() for member in archive if (body := archive.extractfile(member))
        }


def _write_members(members: _Members) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for name, body in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(body)
            archive.addfile(entry, io.BytesIO(body))
    return zstandard.compress(plain.getvalue(), _LEVEL)


def _is_window(name: str) -> bool:
    return PurePosixPath(name).parent.name == "windows"


def _bare_name(name: str) -> str:
    """Return the name of a window without the suffix of its format; other names unchanged."""
    path = PurePosixPath(name)
    is_suffixed = _is_window(name) and path.suffix in {*_TEXT_SUFFIXES, columns.SUFFIX}
    return str(path.with_suffix("")) if is_suffixed else name


def _pack_member(name: str, body: bytes, tick_ns: int) -> tuple[str, bytes]:
    if not _is_window(name):
        return name, body
    trace = round_times(_read(name, body), tick_ns)
    return _bare_name(name) + columns.SUFFIX, columns.encode_trace(trace, archived=True)


def round_times(trace: Trace, tick_ns: int) -> Trace:
    """Return a trace whose times are rounded down to multiples of a tick, and that says so.

    What lay within something else still does. Raises ``UnequalError`` if an event would be a point.
    """
    if tick_ns == 1:
        return trace
    start, end = (time // tick_ns * tick_ns for time in (trace.events.start, trace.events.end))
    if np.any((start == end) & (trace.events.start < trace.events.end)):
        raise UnequalError(f"{trace.path}: an event is shorter than {tick_ns} ns")
    return replace(
        trace,
        events=replace(trace.events, start=start, end=end),
        memory=replace(trace.memory, time=trace.memory.time // tick_ns * tick_ns),
        health=replace(trace.health, resolution_ns=max(trace.health.resolution_ns, tick_ns)),
    )


def _read(name: str, body: bytes) -> Trace:
    """Read the trace in a window, from a path with the same names: they may state its rank."""
    if not _is_window(name):
        raise UnequalError(f"{name} differs")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "windows", PurePosixPath(name).name)
        path.parent.mkdir()
        path.write_bytes(body)
        return read_trace(path, processes=1)


def _unequal_parts(trace: Trace, other_trace: Trace) -> Iterator[str]:
    """Yield the names of the columns and tables in which two traces differ, except the path."""
    other_groups = column_groups(other_trace)
    for group, holder in column_groups(trace).items():
        for name in holder.__struct_fields__:
            column, other_column = (getattr(side, name) for side in (holder, other_groups[group]))
            if column.dtype != other_column.dtype or not np.array_equal(column, other_column):
                yield f"{group}.{name}"
    tables, other_tables = make_tables(trace), make_tables(other_trace)
    for name in tables.__struct_fields__:
        if name != "path" and getattr(tables, name) != getattr(other_tables, name):
            yield name


def _find_records(names: Sequence[str]) -> list[Path]:
    return sorted(
        record.relative_to(ROOT)
        for folder in FOLDERS
        for record in (ROOT / folder).glob(f"*/{NAME}")
        if not names or record.parent.name in names
    )


def _convert(record: Path, originals: Path | None, tick_ns: int) -> str:
    bytes_before = (ROOT / record).stat().st_size
    try:
        if originals is not None:
            compare_records(originals / record, ROOT / record, tick_ns)
            return f"{record}: equal"
        pack_windows(ROOT / record, tick_ns)
    except UnequalError as error:
        return f"UNEQUAL {error}"
    return f"{record}: {bytes_before:,} → {(ROOT / record).stat().st_size:,} bytes"


def main() -> int:
    """Convert or compare records, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="RECORD", help="folders' names (all)")
    parser.add_argument("--check", type=Path, metavar="ORIGINALS", help="another tree, from before")
    parser.add_argument("--tick", type=int, default=1, metavar="NS", help="times are multiples of")
    parser.add_argument("--traces", nargs="+", type=Path, default=(), metavar="FILE")
    options = parser.parse_args()
    if options.traces:
        for path in options.traces:
            print(f"{path} → {pack_trace(path)}")
        return 0
    records = _find_records(options.names)
    is_equal = True
    convert = partial(_convert, originals=options.check, tick_ns=options.tick)
    with ProcessPoolExecutor() as pool:
        for line in pool.map(convert, records):
            is_equal &= not line.startswith("UNEQUAL")
            print(line, flush=True)
    total_bytes = sum((ROOT / record).stat().st_size for record in records)
    print(f"{len(records)} records, {total_bytes:,} bytes")
    return 0 if is_equal else 1


if __name__ == "__main__":
    sys.exit(main())
