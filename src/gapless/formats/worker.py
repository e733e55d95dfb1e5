"""What a process does that decodes every k-th chunk of a file, and writes batches to a pipe.

Each worker inflates the whole file, which is cheap, so that nothing has to be handed to it but the
path.
"""

import gc
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
from msgspec import Struct

from gapless.formats.columns.batch import Batch
from gapless.formats.decode import BatchMaker
from gapless.formats.text import chunks
from gapless.formats.text.stream import TraceText

LENGTH_BYTES: Final = 8


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
            _send(BuiltBatch(maker.batch_of_chunk(chunk)), out)
    _send(EndOfFile(text.damage, text.ignored), out)


def _send(message: Message, out: BinaryIO) -> None:
    packed = msgspec.msgpack.encode(message)
    out.write(len(packed).to_bytes(LENGTH_BYTES, "little"))
    out.write(packed)
    out.flush()
