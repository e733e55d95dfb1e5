"""Processes that read samples and write shards, each asked for one task at a time.

They run in sessions of their own: Ctrl-C reaches this process alone, which ends them.
"""

import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, Self

from msgspec import Struct

from gapless.errors import PackingError

WORKER: Final = Path(__file__).resolve().parents[1] / "packer" / "worker.py"
_HIDDEN_VARIABLES: Final = ("GAPLESS_SPOOL", "GAPLESS_OPTIONS")
_MAX_LAST_WORDS: Final = 300  # characters
_END_S: Final = 5.0

Report = Callable[[int], None]  # samples of the task that are done


class DiskFullError(Exception):
    """The disk took no more."""


class WorkerTask(Struct, frozen=True):
    """A task of a worker's, by its name and arguments; ``number`` tells it from others."""

    number: int
    name: str
    arguments: dict[str, Any]


class TaskEvent(Struct, frozen=True):
    """What became of a task so far: samples that are done, its result, or an error."""

    task: WorkerTask
    done: int | None = None
    result: Any = None
    error: Exception | None = None


class PackWorker:
    """A process that has a source open."""

    def __init__(self, python: str, specification: dict[str, Any]) -> None:
        self._python = python
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        variables = {k: v for k, v in os.environ.items() if k not in _HIDDEN_VARIABLES}
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the user's own interpreter
                [python, str(WORKER), json.dumps(specification)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env=variables,
                start_new_session=True,
            )
        except OSError as error:
            raise PackingError(f"{python} cannot be started: {error.strerror}") from None

    def ask(self, task: WorkerTask, report: Report) -> Any:  # noqa: ANN401 - what the task gives
        """Return the result of a task. Raises ``PackingError`` and ``DiskFullError``."""
        line = json.dumps({"task": task.name, **task.arguments}) + "\n"
        assert self._process.stdin is not None  # noqa: S101 - pipes were asked for
        assert self._process.stdout is not None  # noqa: S101
        with suppress(BrokenPipeError):  # it has ended, and said why
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        for answer in self._process.stdout:
            message = json.loads(answer)
            if "result" in message:
                return message["result"]
            if "error" in message:
                _raise_error(message["error"])
            report(message["progress"])
        raise PackingError(self._describe_end())

    def end(self) -> None:
        """End the process and what it started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def bury(self) -> None:
        """Wait until it has ended, and close what it left."""
        self._process.wait()
        self._stderr.close()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _describe_end(self) -> str:
        code = self._process.wait()
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        last_words = f": {lines[-1][:_MAX_LAST_WORDS]}" if lines else ""
        exit_words = f"by signal {-code}" if code < 0 else f"with {code}"
        return f"a process of {self._python} that reads the source ended {exit_words}{last_words}"


def _raise_error(error: dict[str, str]) -> None:
    if error["kind"] == "full":
        raise DiskFullError(error["words"])
    raise PackingError(error["words"])


class WorkerPool:
    """Workers with one source; used as a context, at whose end they end."""

    def __init__(self, python: str, specification: dict[str, Any]) -> None:
        self._python, self._specification = python, specification
        self._workers: list[PackWorker] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        """Start the first worker."""
        self._workers.append(PackWorker(self._python, self._specification))
        return self

    def __exit__(self, *_: object) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.end()
        for thread in self._threads:
            thread.join(_END_S)
        for worker in self._workers:
            worker.bury()

    def survey(self) -> Any:  # noqa: ANN401 - as JSON has it
        """Return what the first worker finds in the source; others will not look for it again."""
        survey = self._workers[0].ask(WorkerTask(0, "survey", {}), lambda _: None)
        self._specification = {**self._specification, "layout": survey["layout"]}
        return survey

    def run(self, tasks: Sequence[WorkerTask], n_workers: int) -> Iterator[TaskEvent]:
        """Yield what becomes of tasks, done side by side; the last event of each is its result.

        Raises what the first task that fails raises.
        """
        waiting: queue.SimpleQueue[WorkerTask] = queue.SimpleQueue()
        events: queue.SimpleQueue[TaskEvent] = queue.SimpleQueue()
        for task in tasks:
            waiting.put(task)
        for _ in range(len(self._workers), min(n_workers, len(tasks))):
            self._workers.append(PackWorker(self._python, self._specification))
        threads = [
            threading.Thread(target=_serve, args=(worker, waiting, events), daemon=True)
            for worker in self._workers
        ]
        self._threads += threads
        for thread in threads:
            thread.start()
        n_open = len(tasks)
        while n_open:
            event = events.get()
            if event.error is not None:
                raise event.error
            n_open -= event.result is not None
            yield event


def _serve(
    worker: PackWorker,
    waiting: "queue.SimpleQueue[WorkerTask]",
    events: "queue.SimpleQueue[TaskEvent]",
) -> None:
    """Have a worker do tasks until none is waiting, or one fails."""
    while True:
        try:
            task = waiting.get_nowait()
        except queue.Empty:
            return

        def report(done: int, task: WorkerTask = task) -> None:
            events.put(TaskEvent(task, done=done))

        try:
            events.put(TaskEvent(task, result=worker.ask(task, report)))
        except (PackingError, DiskFullError, OSError, ValueError) as error:
            events.put(TaskEvent(task, error=error))
            return
