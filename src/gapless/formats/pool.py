"""A few processes that work for this one: that read a file together, or share tasks among them."""

import fcntl
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from queue import SimpleQueue
from subprocess import DEVNULL, PIPE
from typing import IO, Final, NoReturn, cast

import msgspec
from msgspec import Struct, field

from gapless.formats import worker
from gapless.formats.processes import receive_frame, send_frame, start_interpreter
from gapless.formats.worker import Message

_PIPE_BYTES: Final = 1 << 20  # two batches or so: a worker need not wait for its neighbours
_MAX_MESSAGE_BYTES: Final = 1 << 30  # of a message; one is half a megabyte
_WORKER_CODE: Final = (
    "from pathlib import Path; from gapless.formats.worker import main;"
    " main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.stdout.buffer)"
)

Ask = Callable[[Sequence[bytes]], Iterator[bytes | int]]


class WorkerLostError(Exception):
    """A worker ended before the file did: killed, out of memory, or it could not be started."""


class Worker(Struct, frozen=True):
    """A process, and the pipes of frames from and to it."""

    answers: IO[bytes]
    kill: Callable[[], None]
    wait: Callable[[], int]  # for its end; returns its exit code, negative: the signal
    tasks: IO[bytes] | None = None

    def ask(self, data: bytes) -> bytes | None:
        """Return the answer to a task; ``None`` if the process, or a pipe to it, is gone."""
        try:
            send_frame(cast("IO[bytes]", self.tasks), data)
            return receive_frame(self.answers)
        except (OSError, ValueError):
            return None

    def receive(self) -> Message:
        """Return the next message about a file. Raises ``WorkerLostError``."""
        data = receive_frame(self.answers, _MAX_MESSAGE_BYTES)
        if data is None:
            raise WorkerLostError
        try:
            return msgspec.msgpack.decode(data, type=Message)
        except msgspec.DecodeError as error:
            raise WorkerLostError from error


@contextmanager
def start_workers(path: Path, count: int) -> Generator[list[Worker]]:
    """Start workers that read a file, each every ``count``-th chunk; end them with the block.

    Where nothing else runs in this process a worker is a copy of it, which has imported everything
    already (a fifth of a second); else an interpreter of its own. Neither needs what
    multiprocessing does: that the user's script has a guard of ``__main__``. Raises
    ``WorkerLostError``.
    """
    is_copy = _may_fork()
    workers: list[Worker] = []
    with ExitStack() as stack:
        with _hold_interrupts() if is_copy else nullcontext():
            for number in range(count):
                try:
                    if is_copy:
                        reader = _fork_reader(path, number, count, workers)
                    else:
                        share = [str(path.absolute()), str(number), str(count)]
                        reader = _spawn_worker(_WORKER_CODE, share)
                except (OSError, ValueError) as error:  # no more processes, no more memory
                    raise WorkerLostError from error
                stack.callback(reader.wait)
                stack.callback(reader.kill)  # called first
                _widen_pipe(reader.answers)
                workers.append(reader)
        yield workers


def _may_fork() -> bool:
    """Return whether a copy is safe: a lock that another thread holds would stay locked in it."""
    if sys.platform != "linux" or threading.active_count() > 1:
        return False
    if threading.current_thread() is not threading.main_thread():
        return False
    if signal.getsignal(signal.SIGINT) is None:  # C's: it could not be put back
        return False
    # Who does not leave its children's ends to us would have their numbers given to others.
    return signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL


@contextmanager
def _hold_interrupts() -> Generator[None]:
    """Let Ctrl-C act after the block: what interrupts a hook of a fork is lost in Python.

    Blocking the signal would not do: another thread, NumPy's, would take it.
    """
    handler = signal.getsignal(signal.SIGINT)
    held_signals: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: held_signals.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        for number in held_signals[:1]:
            signal.raise_signal(number)


def _fork_reader(path: Path, number: int, count: int, earlier_workers: Sequence[Worker]) -> Worker:
    reading, writing = os.pipe()
    with warnings.catch_warnings():  # of threads that are not Python's: NumPy's wait for work
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            child = os.fork()
        except OSError:
            os.close(reading)
            os.close(writing)
            raise
    if not child:
        # Who holds the reading end of a pipe keeps its writer waiting for a reader that is dead.
        os.close(reading)
        for worker_before in earlier_workers:
            worker_before.answers.close()
        _run_reader(path, number, count, writing)
    os.close(writing)
    pipe = os.fdopen(reading, "rb")

    def wait() -> int:
        pipe.close()
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    return Worker(pipe, lambda: os.kill(child, signal.SIGKILL), wait)


def _run_reader(path: Path, number: int, count: int, writing: int) -> NoReturn:
    """Do a worker's work in a copy of the user's process, and leave nothing of that process run."""
    try:
        with os.fdopen(writing, "wb") as pipe:
            worker.main(path, number, count, pipe)
    finally:
        os._exit(0)  # without the buffers, the handlers and the traceback of the process copied


def _spawn_worker(
    code: str, arguments: Sequence[str] = (), environment: dict[str, str] | None = None
) -> Worker:
    """Start an interpreter; with an environment one that is given tasks. Raises ``OSError``."""
    # What such a one writes to stderr is shown on request only: it would tear the report apart.
    is_asked = environment is not None
    process = start_interpreter(
        code,
        arguments,
        stdin=PIPE if is_asked else DEVNULL,
        stderr=None if is_asked and os.environ.get("GAPLESS_DEBUG") else DEVNULL,
        environment=environment,
    )

    def wait() -> int:
        exit_code = process.wait()
        for pipe in filter(None, (process.stdin, process.stdout)):
            with suppress(OSError):  # what was written to a process that is gone
                pipe.close()
        return exit_code

    return Worker(cast("IO[bytes]", process.stdout), process.kill, wait, process.stdin)


def _widen_pipe(pipe: IO[bytes]) -> None:
    resize = getattr(fcntl, "F_SETPIPE_SZ", None)  # Linux only
    if resize is not None:
        with suppress(OSError):
            fcntl.fcntl(pipe, resize, _PIPE_BYTES)


class _Crew(Struct, frozen=True):
    code: str
    environment: dict[str, str]
    idle: SimpleQueue[Worker] = field(default_factory=SimpleQueue[Worker])
    workers: list[Worker] = field(default_factory=list[Worker])
    stopped: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)  # one is started, or all are ended

    def start(self) -> None:
        with self.lock:
            if not self.stopped.is_set():
                self.workers.append(_spawn_worker(self.code, environment=self.environment))
                self.idle.put(self.workers[-1])

    def ask(self, task: bytes) -> bytes | int:
        idle_worker = self.idle.get()
        answer = idle_worker.ask(task)
        if answer is not None:
            self.idle.put(idle_worker)
            return answer
        exit_code = idle_worker.wait()
        self.start()
        return exit_code

    def stop(self) -> None:
        with self.lock:
            self.stopped.set()
        for started_worker in self.workers:
            started_worker.kill()
        for started_worker in self.workers:
            started_worker.wait()


@contextmanager
def crew(code: str, size: int, environment: dict[str, str]) -> Generator[Ask]:
    """Start interpreters that run ``code`` and yield the function that has them answer tasks.

    The answers come in the order of the tasks: frames, or the exit code (negative: the signal) of
    a process that ended over its task, which is replaced. They end with the block, also if it ends
    by Ctrl-C. What they may import is what this process may.
    """
    workers = _Crew(code, {**os.environ, **environment})
    threads = ThreadPoolExecutor(size)
    try:
        for _ in range(size):
            workers.start()
        yield lambda tasks: threads.map(workers.ask, tasks)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)  # else the next task waits for a process
        workers.stop()
        threads.shutdown()
