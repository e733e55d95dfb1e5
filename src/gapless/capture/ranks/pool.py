"""A few processes that share the ranks of a study among them."""

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from subprocess import DEVNULL, PIPE, Popen
from threading import Event, Lock
from typing import IO, Final, cast

from msgspec import Struct, field

from gapless.capture.ranks.codec import decode, encode
from gapless.capture.ranks.tasks import Answer, Task
from gapless.formats.processes import receive_frame, send_frame, start_interpreter

_WORKER_CODE: Final = "from gapless.capture.ranks.worker import main; main()"

Ask = Callable[[Sequence[Task]], Iterator[Answer]]


class _Crew(Struct, frozen=True):
    environment: dict[str, str]
    idle: SimpleQueue["Popen[bytes]"] = field(default_factory=SimpleQueue["Popen[bytes]"])
    processes: list["Popen[bytes]"] = field(default_factory=list["Popen[bytes]"])
    stopped: Event = field(default_factory=Event)
    lock: Lock = field(default_factory=Lock)  # a process is started, or all are ended

    def start(self) -> None:
        """Add a process."""
        with self.lock:
            if not self.stopped.is_set():
                self._start()

    def _start(self) -> None:
        process = start_interpreter(
            _WORKER_CODE, stdin=PIPE, stderr=_errors(), environment=self.environment
        )
        self.processes.append(process)
        self.idle.put(process)

    def ask(self, task: Task) -> Answer:
        """Give a task to an idle process; one that dies over it is replaced."""
        process = self.idle.get()
        data = _exchange(process, encode(task))
        if data is not None:
            self.idle.put(process)
            return decode(data, Answer)
        code = process.wait()
        self.start()
        return Answer(refused=_describe_exit(code))

    def stop(self) -> None:
        """End all processes, whatever they are at."""
        with self.lock:
            self.stopped.set()
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
            for pipe in _pipes(process):
                with suppress(OSError):  # what was written to a process that is gone
                    pipe.close()


@contextmanager
def crew(size: int, environment: dict[str, str]) -> Generator[Ask]:
    """Start processes and yield the function that has them answer tasks, in order.

    They end with the block, also if it ends by Ctrl-C. What they may import is what this process
    may.
    """
    workers = _Crew({**os.environ, **environment})
    pool = ThreadPoolExecutor(size)
    try:
        for _ in range(size):
            workers.start()
        yield lambda tasks: pool.map(workers.ask, tasks)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # else the next task waits for a process
        workers.stop()
        pool.shutdown()


def _errors() -> int | None:
    """Show what a process writes to stderr only on request: it would tear the report apart."""
    return None if os.environ.get("GAPLESS_DEBUG") else DEVNULL


def _exchange(process: "Popen[bytes]", data: bytes) -> bytes | None:
    into, out = _pipes(process)
    try:
        send_frame(into, data)
        return receive_frame(out)
    except (OSError, ValueError):  # it is gone, or its pipes were closed as the study ended
        return None


def _describe_exit(code: int) -> str:
    if code < 0:
        return f"the process that read it was killed by signal {-code}: is there enough memory?"
    return f"gapless made a mistake over it (code {code}): GAPLESS_DEBUG=1 shows which"


def _pipes(process: "Popen[bytes]") -> tuple[IO[bytes], IO[bytes]]:
    return cast("tuple[IO[bytes], IO[bytes]]", (process.stdin, process.stdout))
