"""The process that reads ranks: frames of msgpack on standard input, answers on standard output.

It is started by ``formats.pool.crew``.
"""

import os
import signal
import sys
from typing import IO

from gapless.capture.ranks.codec import decode, encode
from gapless.capture.ranks.tasks import Answer, Task, perform_task
from gapless.errors import GaplessError
from gapless.formats.processes import receive_frame, send_frame


def answer(data: bytes) -> bytes:
    """Perform an encoded task and return the encoded answer."""
    try:
        return encode(perform_task(decode(data, Task)))
    except GaplessError as error:
        return encode(Answer(refused=str(error)))


def serve(tasks: IO[bytes], answers: IO[bytes]) -> None:
    """Answer tasks until their pipe ends."""
    while (data := receive_frame(tasks)) is not None:
        send_frame(answers, answer(data))


def main() -> None:  # pragma: no cover - in a process of its own
    """Answer on the standard pipes. Ctrl-C is the parent's to handle: it ends this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get among the frames
    serve(sys.stdin.buffer, answers)
