"""Do what the launcher asks for, one task a line on stdin, and answer in lines of JSON on stdout.

Tasks: ``survey`` (how many samples, how large, are they the same each time), ``write`` (a shard),
``verify`` (a shard against the source). An answer has ``progress``, ``result`` or ``error``. What
the user's code prints goes to stderr.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any

from ..parts.packed_shards import (
    NO_LABEL,
    PACKAGES,
    ROW,
    SHARDS,
    SUFFIXES,
    IndexRow,
    ShardIndex,
    import_package,
    parse_members,
)
from ..parts.sample_codec import UnencodableError, decode, encode, rebuild
from .files import write_file
from .sources import FixedDataset, ImageFolder, SourceError, SourceRecord, UserDataset
from .streamed import INDICES
from .tables import CsvTable, ParquetTable, TarShards, find_tars
from .writers import WRITERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_OWN_FOLDER = os.path.dirname(os.path.abspath(__file__))
_PROGRESS_S = 0.2
_SURVEY_SAMPLES = 32
_REPEATED_SAMPLES = 8  # that are made twice
_MEASURED_FILES = 20_000
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_ROOM_WORDS = ("no space left", "disk quota exceeded", "file too large")
_PACKABLE = (
    "; what can be packed: tensors, arrays, images of Pillow, bytes, texts, numbers, and tuples, "
    "lists and dicts of these"
)
_IMPORT_HINT = (
    "; it is imported for its data set alone: what trains belongs below if __name__ == '__main__'"
)
_HASH_STEP = 1 << 20
_MAX_DIFFERENCES = 10


class SampleError(Exception):
    """What a sample failed with; the message names the sample."""


def main(specification: str) -> int:
    """Serve until stdin is closed."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # print() of a data set must not come among the answers

    def answer(**message: Any) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    path = json.loads(specification)["source"]["path"]
    try:
        session = PackingSession(json.loads(specification), lambda n: answer(progress=n))
    except BaseException as error:  # noqa: BLE001 - the user's module may raise anything
        answer(error=describe_error(error, f"{path} cannot be opened: "))
        return 1
    for line in sys.stdin:
        task = json.loads(line)
        try:
            answer(result=getattr(session, task.pop("task"))(**task))
        except BrokenPipeError:
            return 1
        except BaseException as error:  # noqa: BLE001 - likewise
            answer(error=describe_error(error))
    return 0


def describe_error(error: BaseException, doing: str = "") -> dict[str, Any]:
    """Return an error as an answer: its kind, and what to say."""
    words = _name_error(error)
    number = getattr(error, "errno", None)
    if number in _FULL or any(part in words.lower() for part in _NO_ROOM_WORDS):
        return {"kind": "full", "words": words}
    if isinstance(error, (SampleError, SourceError, UnencodableError)):
        return {"kind": "source", "words": str(error)}
    if isinstance(error, ImportError) and "gapless[pack]" in str(error):
        return {"kind": "package", "words": f"{error}, for {sys.executable}"}
    frames = traceback.extract_tb(error.__traceback__)
    hint = _IMPORT_HINT if any(frame.name == "import_file" for frame in frames) else ""
    return {"kind": "other", "words": f"{doing}{words}{hint}"}


def _name_error(error: BaseException) -> str:
    """Return an error's type, message and line."""
    words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    files = [frame for frame in frames if os.path.dirname(frame.filename) != _OWN_FOLDER]
    if not files or isinstance(error, OSError):
        return words
    return f"{words} ({os.path.basename(files[-1].filename)}:{files[-1].lineno})"


class PackingSession:
    """A source that is open, and the tasks that are done with it."""

    def __init__(self, specification: dict[str, Any], report: Callable[[int], None]) -> None:
        self._format: str = specification["format"]
        if self._format in PACKAGES:
            import_package(self._format)
        self._source = open_source(specification["source"], self._format, specification["layout"])
        self._report = report

    def survey(self) -> dict[str, Any]:
        """Return what there is to pack, and how much of it."""
        source, count = self._source, len(self._source)
        indices = spread_indices(count, _SURVEY_SAMPLES)
        began_s = time.monotonic()
        records = [self._record(index) for index in indices]
        looking_s = time.monotonic() - began_s
        digest = hashlib.sha256(json.dumps([source.kind, count, source.classes]).encode())
        for record in records:
            digest.update(hashlib.sha256(record.data).digest())
            digest.update(repr((record.label, record.name)).encode())
        repeated = range(0, len(indices), max(1, len(indices) // _REPEATED_SAMPLES))
        return {
            "samples": count,
            "kind": source.kind,
            "classes": source.classes,
            "skeleton": getattr(source, "skeleton", None),
            "layout": source.layout,
            "notes": source.notes,
            "fingerprint": digest.hexdigest(),
            "sample_bytes": self._measure(records),
            "sample_s": looking_s / max(1, len(records)),
            "changing": [i for i in (indices[k] for k in repeated) if self._changes(i, records)],
        }

    def _measure(self, records: list[SourceRecord]) -> float:
        """Return the bytes of a sample, on average."""
        source = self._source
        if isinstance(source, ImageFolder):
            sizes = [source.measure(i) for i in spread_indices(len(source), _MEASURED_FILES)]
        else:
            sizes = [len(record.data) for record in records]
        return sum(sizes) / len(sizes) if sizes else 0.0

    def _changes(self, index: int, records: list[SourceRecord]) -> bool:
        """Return whether a sample is another when it is made again."""
        first = records[spread_indices(len(self._source), _SURVEY_SAMPLES).index(index)]
        return self._record(index) != first

    def write(self, path: str, first: int, count: int) -> dict[str, Any]:
        """Write a shard below a path without its suffix; return its files."""
        skeleton = getattr(self._source, "skeleton", None)
        main_path = path + SUFFIXES[self._format]
        writer = WRITERS[self._format](main_path, first, count, skeleton)
        rows = bytearray()
        names: list[str] = []
        try:
            for record in self._records(first, count):
                label = NO_LABEL if record.label is None else record.label
                rows += ROW.pack(*writer.add(record), label)
                names += [] if record.name is None else [record.name]
            writer.close()
        except BaseException:
            writer.abandon()
            raise
        write_file(f"{path}.idx", bytes(rows))
        suffixes = [SUFFIXES[self._format], ".idx"]
        if names:
            write_file(f"{path}.names.json", json.dumps(names).encode())
            suffixes.append(".names.json")
        return {"files": {suffix: hash_file(path + suffix) for suffix in suffixes}}

    def verify(self, path: str, first: int, count: int) -> dict[str, Any]:
        """Compare each sample of a shard with the source."""
        index = ShardIndex(f"{path}.idx")
        shard = SHARDS[self._format](path + SUFFIXES[self._format])
        different = [
            first + row
            for row, record in enumerate(self._records(first, count))
            if not self._is_equal(shard.read(row, index[row]), index[row], record)
        ]
        shard.close()
        return {"different": different[:_MAX_DIFFERENCES], "count": len(different)}

    def index(self, folder: str, shards: list[dict[str, Any]], *, has_labels: bool) -> bool:
        """Write the index that the library of the format finds shards by."""
        document = INDICES[self._format](shards, has_labels=has_labels)
        path = os.path.join(folder, "index.json")
        write_file(f"{path}.part", json.dumps(document).encode())
        os.replace(f"{path}.part", path)
        return True

    def check(self, path: str, files: dict[str, Any]) -> list[str]:
        """Return the files of a shard, by suffix, that are not what was written."""
        return [suffix for suffix in files if not _is_whole(path + suffix, files[suffix])]

    def _is_equal(self, stored: Any, place: IndexRow, record: SourceRecord) -> bool:
        label = NO_LABEL if record.label is None else record.label
        if place.label != label:
            return False
        if self._source.kind == "files" and self._format == "tar":
            return encode(parse_members(stored)) == record.data
        if bytes(stored) != record.data:
            return False
        return self._source.kind == "images" or self._reads_back(stored, record)

    def _reads_back(self, stored: Any, record: SourceRecord) -> bool:
        """Return whether a sample that is read is, written again, the same bytes."""
        skeleton = getattr(self._source, "skeleton", None)
        if skeleton is None:
            return encode(decode(stored)) == record.data
        return encode(rebuild(skeleton, stored)) == encode(
            rebuild(skeleton, bytearray(record.data))
        )

    def _records(self, first: int, count: int) -> Iterator[SourceRecord]:
        reported_s = time.monotonic()
        for index in range(first, first + count):
            yield self._record(index)
            if time.monotonic() - reported_s > _PROGRESS_S:
                self._report(index + 1 - first)
                reported_s = time.monotonic()

    def _record(self, index: int) -> SourceRecord:
        try:
            return self._source.record(index)
        except BrokenPipeError:
            raise
        except UnencodableError as error:
            hint = "" if self._format == "npy" else _PACKABLE
            raise SampleError(f"sample {index}: {error}{hint}") from error
        except Exception as error:
            raise SampleError(f"sample {index} cannot be made: {_name_error(error)}") from error


def open_source(source: dict[str, str], kind: str, layout: Any) -> Any:
    """Open a source for a target of a kind. Raises ``SourceError``."""
    path = source["path"]
    if source["kind"] == "dataset":
        dataset = UserDataset(path)
        return FixedDataset(dataset) if kind == "npy" else dataset
    if kind == "npy":
        raise SourceError(
            "--to npy is for data sets of arrays of equal shapes: files and rows vary in length; "
            "--to packed takes all"
        )
    if source["kind"] == "csv":
        return CsvTable(path, layout)
    if source["kind"] == "parquet":
        return ParquetTable(path)
    if source["kind"] == "tar":
        return TarShards(find_tars(path) if os.path.isdir(path) else [path], layout)
    return ImageFolder(path)


def spread_indices(count: int, most: int) -> list[int]:
    """Return at most so many indices, evenly from the first to the last."""
    if count <= most:
        return list(range(count))
    return [round(k * (count - 1) / (most - 1)) for k in range(most)]


def hash_file(path: str) -> dict[str, Any]:
    """Return the size of a file and the checksum of what is in it."""
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while chunk := file.read(_HASH_STEP):
            digest.update(chunk)
            size += len(chunk)
    return {"bytes": size, "sha256": digest.hexdigest()}


def _is_whole(path: str, written: dict[str, Any]) -> bool:
    try:
        return hash_file(path) == written
    except FileNotFoundError:
        return False
