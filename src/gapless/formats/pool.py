"""Several processes that read one file together."""

import fcntl
import os
import signal
import sys
import threading
import warnings
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Final, NoReturn, cast

import msgspec
from msgspec import Struct

from gapless.formats import worker
from gapless.formats.processes import receive_frame, start_interpreter
from gapless.formats.worker import Message

_PIPE_BYTES: Final = 1 << 20  # two batches or so: a worker need not wait for its neighbours
_MAX_MESSAGE_BYTES: Final = 1 << 30  # of a message; one is half a megabyte
_WORKER_CODE: Final = (
    "from pathlib import Path; from gapless.formats.worker import main;"
    " main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.stdout.buffer)"
)


class WorkerLostError(Exception):
    """A worker ended before the file did: killed, out of memory, or it could not be started."""


class FileShare(Struct, frozen=True):
    """The part of a file that is a worker's: every ``count``-th chunk, from ``number`` on."""

    path: Path
    number: int
    count: int


class ReadingWorker(Struct, frozen=True):
    """A process, and the pipe through which its batches come."""

    pipe: IO[bytes]

    def receive(self) -> Message:
        """Return the next message. Raises ``WorkerLostError``."""
        data = receive_frame(self.pipe, _MAX_MESSAGE_BYTES)
        if data is None:
            raise WorkerLostError
        try:
            return msgspec.msgpack.decode(data, type=Message)
        except msgspec.DecodeError as error:
            raise WorkerLostError from error


@contextmanager
def start_workers(path: Path, count: int) -> Generator[list[ReadingWorker]]:
    """Start workers, and end them however the reading ends. Raises ``WorkerLostError``.

    Where nothing else runs in this process a worker is a copy of it, which has imported everything
    already (a fifth of a second); else an interpreter of its own. Neither needs what
    multiprocessing does: that the user's script has a guard of ``__main__``.
    """
    start_worker = _fork_worker if _may_fork() else _spawn_worker
    workers: list[ReadingWorker] = []
    with ExitStack() as stack:
        for number in range(count):
            workers.append(
                stack.enter_context(start_worker(FileShare(path, number, count), workers))
            )
        yield workers


def _may_fork() -> bool:
    """Return whether a copy is safe: a lock that another thread holds would stay locked in it."""
    if sys.platform != "linux" or threading.active_count() > 1:
        return False
    # Who does not leave its children's ends to us would have their numbers given to others.
    return signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL


@contextmanager
def _fork_worker(
    share: FileShare, earlier_workers: Sequence[ReadingWorker]
) -> Generator[ReadingWorker]:
    reading, writing = os.pipe()
    with warnings.catch_warnings():  # of threads that are not Python's: NumPy's wait for work
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            child = os.fork()
        except OSError as error:  # no more processes, no more memory
            os.close(reading)
            os.close(writing)
            raise WorkerLostError from error
    if not child:
        # Who holds the reading end of a pipe keeps its writer waiting for a reader that is dead.
        os.close(reading)
        for worker_before in earlier_workers:
            worker_before.pipe.close()
        _run_worker(share, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        _widen_pipe(pipe)
        try:
            yield ReadingWorker(pipe)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _run_worker(share: FileShare, writing: int) -> NoReturn:
    """Do a worker's work in a copy of the user's process, and leave nothing of that process run."""
    try:
        with os.fdopen(writing, "wb") as pipe:
            worker.main(share.path, share.number, share.count, pipe)
    finally:
        os._exit(0)  # without the buffers, the handlers and the traceback of the process copied


@contextmanager
def _spawn_worker(share: FileShare, _: Sequence[ReadingWorker]) -> Generator[ReadingWorker]:
    arguments = [str(share.path.absolute()), str(share.number), str(share.count)]
    try:
        process = start_interpreter(_WORKER_CODE, arguments)
    except (OSError, ValueError) as error:
        raise WorkerLostError from error
    with process:
        pipe = cast("IO[bytes]", process.stdout)
        _widen_pipe(pipe)
        try:
            yield ReadingWorker(pipe)
        finally:
            process.kill()


def _widen_pipe(pipe: IO[bytes]) -> None:
    resize = getattr(fcntl, "F_SETPIPE_SZ", None)  # Linux only
    if resize is not None:
        with suppress(OSError):
            fcntl.fcntl(pipe, resize, _PIPE_BYTES)
