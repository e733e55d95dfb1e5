"""What a process does that decodes every k-th chunk of a file, and writes batches to a pipe.

Each worker inflates the whole file, which is cheap, so that nothing has to be handed to it but the
path.
"""

import gc
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

from gapless.formats.columns.batch import Batch
from gapless.formats.decode import BatchMaker
from gapless.formats.processes import send_frame
from gapless.formats.text import chunks
from gapless.formats.text.stream import TraceText


class EndOfFile(Struct, tag=True):
    """The file has ended."""

    damage: str | None
    ignored: int


class BuiltBatch(Struct, tag=True):
    """One more batch."""

    batch: Batch


Message = BuiltBatch | EndOfFile


def main(path: Path, number: int, count: int, out: BinaryIO) -> None:
    """Write the batches of the chunks ``number``, ``number + count``, …, then an ``EndOfFile``."""
    gc.disable()
    text = TraceText(path)
    pieces = text.pieces()
    _, head_rest = chunks.head(pieces)
    maker = BatchMaker()
    for index, chunk in enumerate(chunks.cut_chunks(head_rest or b"", pieces)):
        if index % count == number:
            _write(BuiltBatch(maker.batch_of_chunk(chunk)), out)
    _write(EndOfFile(text.damage, text.ignored), out)


def _write(message: Message, out: BinaryIO) -> None:
    send_frame(out, msgspec.msgpack.encode(message))
