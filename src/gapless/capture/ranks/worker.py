"""The process that reads ranks: frames of msgpack on standard input, answers on standard output.

It is started by ``formats.pool.crew``.
"""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import gettempdir
from typing import IO

from gapless.capture.ranks.codec import decode, encode
from gapless.capture.ranks.tasks import Answer, Task, perform_task
from gapless.errors import GaplessError
from gapless.formats.processes import receive_frame, send_frame


def answer(data: bytes, needs: Sequence[bytes] = ()) -> tuple[bytes, list[bytes]]:
    """Perform an encoded task; return the encoded answer, and what is to be kept of it."""
    task = decode(data, Task)
    try:
        result, blobs = perform_task(task, needs)
    except GaplessError as error:
        result, blobs = Answer(refused=str(error)), [b"" for _ in task.keeps]
    return encode(result), blobs


def serve(tasks: IO[bytes], answers: IO[bytes]) -> None:
    """Answer tasks until their pipe ends; what is kept is kept in temporary files."""
    folder = Path(gettempdir())
    while (data := receive_frame(tasks)) is not None:
        task = decode(data, Task)
        result, blobs = answer(data, [(folder / name).read_bytes() for name in task.needs])
        for name, blob in zip(task.keeps, blobs, strict=False):
            (folder / name).write_bytes(blob)
        send_frame(answers, result)


def main() -> None:  # pragma: no cover - in a process of its own
    """Answer on the standard pipes. Ctrl-C is the parent's to handle: it ends this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get among the frames
    serve(sys.stdin.buffer, answers)
