"""What ``torch.profiler`` writes, and Chrome's trace format at large → a trace."""

import gc
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gapless.errors import NotATraceError, NotFoundError
from gapless.formats import chunks, finish, pool
from gapless.formats.assemble import Assembly, Map
from gapless.formats.batch import Batch
from gapless.formats.decode import Maker, guessed_end
from gapless.formats.stream import Text
from gapless.formats.worker import Done
from gapless.model.trace import Trace

_REST_LIMIT: Final = 64 << 20  # of what stands after the events
_WORTH_IT: Final = 4 << 20, 24 << 20  # bytes, compressed and not, from which on workers pay
_MOST_WORKERS: Final = 8
_SHOWN: Final = 24  # bytes of what is no trace


def read(source: str | os.PathLike[str], *, processes: int | None = None) -> Trace:
    """Read one trace file: plain, gzip or zstd, told apart by content.

    ``processes`` is the number of workers (1: none, this process reads); by default as many as the
    file is worth. The trace is the same. Raises ``NotFoundError`` if the file cannot be opened and
    ``NotATraceError`` if it holds no trace. What can be read of a cut or damaged one is given, and
    its ``health`` tells.
    """
    path = Path(source)
    try:
        with _collector_off():
            return _read(path, processes)
    except IsADirectoryError as error:
        msg = f"{path}: is a folder, not a file"
        raise NotATraceError(msg) from error
    except OSError as error:
        msg = f"{path}: {error.strerror or error}"
        raise NotFoundError(msg) from error


def _read(path: Path, processes: int | None) -> Trace:
    text = Text(path)
    pieces = text.pieces()
    head, first = chunks.head(pieces)
    if first is None:
        raise NotATraceError(f"{path}: {_reason(head, text)}")
    wanted = _workers_for(path, text) if processes is None else processes
    found = _together(path, head, wanted) if wanted > 1 else None
    return _checked(path, found or _alone(text, head, chunks.cut(first, pieces)))


def _reason(head: bytes, text: Text) -> str:
    start = head.lstrip()
    if text.damage is not None:
        return f"holds no trace that can be read ({text.damage})"
    if not start:
        return "the file is empty"
    if start.startswith(b"{"):
        return "JSON without traceEvents is no trace of torch.profiler or Chrome"
    return f"no JSON; it starts with {start[:_SHOWN]!r}"


def _workers_for(path: Path, text: Text) -> int:
    worth = _WORTH_IT[0 if text.compressed else 1]
    return min(pool.processors(), _MOST_WORKERS) if path.stat().st_size > worth else 1


@dataclass
class _Reading:
    """Batches appended in the order of the file; what a cut between chunks tore apart is joined."""

    assembly: Assembly = field(default_factory=Assembly)
    rest: bytes | None = None  # what stands after the events, once it is reached
    torn: bytes = b""  # an event whose other part should come next
    _maker: Maker = field(default_factory=Maker)
    _ids: Map = field(default_factory=Map)

    def add(self, batch: Batch, ids: Map) -> None:
        """Append the next batch; ``ids`` belongs to its maker."""
        if batch.written == 0 and batch.rest is None and batch.tail is not None:
            self.torn += (batch.head or b"") + batch.tail  # a chunk without a single whole event
            return
        self._join(batch.head or b"")
        if self.rest is not None:
            return
        self.assembly.add(batch, ids)
        self.torn = batch.tail or b""
        self.rest = batch.rest

    def _join(self, head: bytes) -> None:
        """Read what was torn together with what the next chunk starts with."""
        whole, self.torn = self.torn + head, b""
        left = self._read(whole) if whole else []
        for piece in left:
            self.assembly.add(self._maker.mended(piece), self._ids)

    def _read(self, text: bytes) -> list[bytes]:
        batch = self._maker.make(text)
        self.assembly.add(batch, self._ids)
        self.rest = batch.rest
        return [piece for piece in (batch.head, batch.tail) if piece]

    def close(self) -> None:
        """Read what is left at the end of the file; what cannot be read stays ``torn``."""
        if self.torn and self.rest is None:
            self.torn = b"".join(self._read(self.torn))
        end = guessed_end(self.torn)
        if end is not None:
            self.assembly.add(self._maker.mended(self.torn[: end[0]]), self._ids)
            self.rest, self.torn = self.torn[end[1] :], b""


def _alone(text: Text, head: bytes, parts: Iterator[chunks.Chunk]) -> tuple[Assembly, finish.Ends]:
    reading, maker, ids = _Reading(), Maker(), Map()
    for part in parts:
        if reading.rest is None:
            reading.add(maker.chunk(part), ids)
        elif len(reading.rest) < _REST_LIMIT:
            reading.rest += part.text()
    return reading.assembly, _ends(head, reading, text.damage, text.ignored)


def _together(path: Path, head: bytes, count: int) -> tuple[Assembly, finish.Ends] | None:
    """Read with workers; ``None`` if that does not work out, and one process has to."""
    reading, maps, place = _Reading(), [Map() for _ in range(count)], 0
    try:
        with pool.workers(path, count) as workers:
            while not isinstance(message := workers[place % count].receive(), Done):
                if reading.rest is not None:  # more than a chunk after the events: who knows what
                    return None
                reading.add(message.batch, maps[place % count])
                place += 1
    except pool.WorkerLostError:
        return None
    return reading.assembly, _ends(head, reading, message.damage, message.ignored)


def _ends(head: bytes, reading: _Reading, damage: str | None, ignored: int) -> finish.Ends:
    reading.close()
    return finish.Ends(head, reading.rest, len(reading.torn), damage, ignored)


def _checked(path: Path, found: tuple[Assembly, finish.Ends]) -> Trace:
    assembly, ends = found
    lost = sum(assembly.dropped.values())
    bare = ends.head.strip() == b"["
    if assembly.written <= lost and (bare or lost or ends.truncated):
        what = f"none of its {lost} entries is an event" if lost else "it holds no events"
        raise NotATraceError(f"{path}: {what}")
    return finish.trace(path, assembly, ends)


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
