"""What ``torch.profiler`` writes, and Chrome's trace format at large → a trace."""

import gc
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from gapless.errors import NotATraceError, NotFoundError
from gapless.formats import finish, pool
from gapless.formats.columns.assemble import Assembly, IdMap
from gapless.formats.columns.batch import Batch
from gapless.formats.decode import BatchMaker, guess_end
from gapless.formats.processes import count_processors
from gapless.formats.text import chunks
from gapless.formats.text.stream import TraceText
from gapless.formats.worker import EndOfFile
from gapless.model.trace import Trace

_MAX_FOOTER_BYTES: Final = 64 << 20  # of what stands after the events
_MIN_POOL_BYTES: Final = 4 << 20, 24 << 20  # bytes, compressed and not, from which on workers pay
_MAX_WORKERS: Final = 8
_SHOWN_BYTES: Final = 24  # bytes of what is no trace


def read(
    source: str | os.PathLike[str],
    *,
    processes: int | None = None,
    report_entries: Callable[[int], None] = lambda _: None,
) -> Trace:
    """Read one trace file: plain, gzip or zstd, told apart by content.

    ``processes`` is the number of workers (1: none, this process reads); by default as many as the
    file is worth. The trace is the same. ``report_entries`` is told how many entries are read, now
    and then. Raises ``NotFoundError`` if the file cannot be opened and
    ``NotATraceError`` if it holds no trace. What can be read of a cut or damaged one is returned,
    and its ``health`` says so.
    """
    path = Path(source)
    try:
        with _collector_off():
            return _read(path, processes, report_entries)
    except IsADirectoryError as error:
        msg = f"{path}: is a folder, not a file"
        raise NotATraceError(msg) from error
    except OSError as error:
        msg = f"{path}: {error.strerror or error}"
        raise NotFoundError(msg) from error


def _read(path: Path, processes: int | None, report_entries: Callable[[int], None]) -> Trace:
    text, joiner = TraceText(path), _BatchJoiner(report_entries)
    pieces = text.pieces()
    head, head_rest = chunks.head(pieces)
    if head_rest is None:
        raise NotATraceError(f"{path}: {_reason(head, text)}")
    n_workers = _workers_for(path, text) if processes is None else processes
    assembled = _read_with_workers(path, head, n_workers, joiner) if n_workers > 1 else None
    if assembled is None:
        joiner = _BatchJoiner(report_entries)
        assembled = _read_alone(text, head, chunks.cut_chunks(head_rest, pieces), joiner)
    return _checked_trace(path, assembled)


def _reason(head: bytes, text: TraceText) -> str:
    start = head.lstrip()
    if text.damage is not None:
        return f"holds no trace that can be read ({text.damage})"
    if not start:
        return "the file is empty"
    if start.startswith(b"{"):
        return "JSON without traceEvents is no trace of torch.profiler or Chrome"
    return f"no JSON; it starts with {start[:_SHOWN_BYTES]!r}"


def _workers_for(path: Path, text: TraceText) -> int:
    min_bytes = _MIN_POOL_BYTES[0 if text.is_compressed else 1]
    return min(count_processors(), _MAX_WORKERS) if path.stat().st_size > min_bytes else 1


class _BatchJoiner(Struct):
    """Batches appended in the order of the file; what a cut between chunks tore apart is joined."""

    report_entries: Callable[[int], None]  # how many are read
    assembly: Assembly = field(default_factory=Assembly)
    footer: bytes | None = None  # what stands after the events, once it is reached
    torn: bytes = b""  # an event whose other part should come next
    _maker: BatchMaker = field(default_factory=BatchMaker)
    _ids: IdMap = field(default_factory=IdMap)

    def add(self, batch: Batch, ids: IdMap) -> None:
        """Append the next batch; ``ids`` belongs to its maker."""
        if batch.written == 0 and batch.footer is None and batch.tail is not None:
            self.torn += (batch.head or b"") + batch.tail  # a chunk without a single whole event
            return
        self._join_torn(batch.head or b"")
        if self.footer is not None:
            return
        self.assembly.add(batch, ids)
        self.report_entries(self.assembly.written)
        self.torn = batch.tail or b""
        self.footer = batch.footer

    def _join_torn(self, head: bytes) -> None:
        """Read what was torn together with what the next chunk starts with."""
        joined, self.torn = self.torn + head, b""
        unread = self._read(joined) if joined else []
        for piece in unread:
            self.assembly.add(self._maker.batch_of_piece(piece), self._ids)

    def _read(self, text: bytes) -> list[bytes]:
        batch = self._maker.batch_of_text(text)
        self.assembly.add(batch, self._ids)
        self.footer = batch.footer
        return [piece for piece in (batch.head, batch.tail) if piece]

    def close(self) -> None:
        """Read what is left at the end of the file; what cannot be read stays ``torn``."""
        if self.torn and self.footer is None:
            self.torn = b"".join(self._read(self.torn))
        end = guess_end(self.torn)
        if end is not None:
            self.assembly.add(self._maker.batch_of_piece(self.torn[: end[0]]), self._ids)
            self.footer, self.torn = self.torn[end[1] :], b""


def _read_alone(
    text: TraceText, head: bytes, file_chunks: Iterator[chunks.Chunk], reading: _BatchJoiner
) -> tuple[Assembly, finish.FileEnds]:
    maker, ids = BatchMaker(), IdMap()
    for chunk in file_chunks:
        if reading.footer is None:
            reading.add(maker.batch_of_chunk(chunk), ids)
        elif len(reading.footer) < _MAX_FOOTER_BYTES:
            reading.footer += chunk.text()
    return reading.assembly, _file_ends(head, reading, text.damage, text.ignored)


def _read_with_workers(
    path: Path, head: bytes, count: int, reading: _BatchJoiner
) -> tuple[Assembly, finish.FileEnds] | None:
    """Read with workers; ``None`` if that does not work out, and one process has to."""
    maps, chunk_index = [IdMap() for _ in range(count)], 0
    try:
        with pool.start_workers(path, count) as workers:
            while not isinstance(message := workers[chunk_index % count].receive(), EndOfFile):
                if reading.footer is not None:  # more than a chunk after the events: who knows what
                    return None
                reading.add(message.batch, maps[chunk_index % count])
                chunk_index += 1
    except pool.WorkerLostError:
        return None
    return reading.assembly, _file_ends(head, reading, message.damage, message.ignored)


def _file_ends(
    head: bytes, reading: _BatchJoiner, damage: str | None, ignored: int
) -> finish.FileEnds:
    reading.close()
    return finish.FileEnds(head, reading.footer, len(reading.torn), damage, ignored)


def _checked_trace(path: Path, assembled: tuple[Assembly, finish.FileEnds]) -> Trace:
    assembly, ends = assembled
    n_lost = sum(assembly.dropped.values())
    is_bare = ends.head.strip() == b"["
    if assembly.written <= n_lost and (is_bare or n_lost or ends.is_truncated):
        complaint = f"none of its {n_lost} entries is an event" if n_lost else "it holds no events"
        raise NotATraceError(f"{path}: {complaint}")
    return finish.build_trace(path, assembly, ends)


@contextmanager
def _collector_off() -> Generator[None]:
    """Keep the garbage collector from walking the millions of objects that decoding makes."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
