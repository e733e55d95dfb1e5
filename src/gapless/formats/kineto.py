"""What ``torch.profiler`` writes, and Chrome's trace format at large → a trace."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gapless.errors import NotATraceError
from gapless.formats import chunks, finish, mend
from gapless.formats.assemble import Assembly, Map
from gapless.formats.batch import Batch
from gapless.formats.decode import Maker
from gapless.formats.stream import Text
from gapless.model.trace import Trace

_REST_LIMIT = 64 << 20


@dataclass
class Stitching:
    """Appends batches in order, and joins what a cut between two chunks tore apart."""

    assembly: Assembly = field(default_factory=Assembly)
    rest: bytes | None = None
    _maker: Maker = field(default_factory=Maker)
    _ids: Map = field(default_factory=Map)
    _torn: bytes = b""

    def add(self, batch: Batch, ids: Map) -> None:
        """Append the next batch of the file."""
        if batch.written == 0 and batch.rest is None and batch.tail is not None:
            self._torn += batch.tail
            return
        if self._torn or batch.head:
            self._join(batch.head or b"")
        self.assembly.add(batch, ids)
        self._torn = batch.tail or b""
        self.rest = batch.rest

    def _join(self, head: bytes) -> None:
        whole = self._torn + head
        pieces = [whole] if self._maker.decoded(whole) is not None else [self._torn, head]
        for piece in pieces:
            if piece:
                self.assembly.add(self._maker.mended(piece), self._ids)
        self._torn = b""

    def close(self) -> int:
        """Say how many bytes of an event that was cut off are left."""
        return len(self._torn)


def read(path: Path) -> Trace:
    """Read one file in this process."""
    with collector_off():
        text = Text(path)
        pieces = text.pieces()
        opened = chunks.head(pieces)
        if opened is None:
            raise NotATraceError(f"{path}: no traceEvents in it")
        head, first = opened
        stitching, maker, ids = Stitching(), Maker(), Map()
        for chunk in chunks.cut(first, pieces):
            if stitching.rest is None:
                stitching.add(maker.make(chunk), ids)
            elif len(stitching.rest) < _REST_LIMIT:
                stitching.rest += chunk
        return finish.trace(path, stitching.assembly, finish.Ends(head, stitching.rest, stitching.close(), text.damage))


@contextmanager
def collector_off() -> Iterator[None]:
    """Keep the garbage collector from walking the millions of objects that decoding makes."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
