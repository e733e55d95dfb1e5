"""Record the first steps of the training that this process runs, and say the verdict on them.

Only this process is recorded, and its workers: not the machine beside it, and no other rank.
Nothing that fails here reaches the training: it is said instead.
"""

import atexit
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from gapless import wire
from gapless.launch.unobserved import contain_failures, describe_error

if TYPE_CHECKING:
    import subprocess

    from gapless.integrations.verdicts import LoopVerdict

DEFAULT_STEPS: Final = 200  # windows of a few steps are among them, and enough others
_PATIENCE_S: Final = 60.0  # at the end of a training, for the verdict on it


class LoopRecording:
    """A recording that ends after so many steps; then the verdict is awaited, and said once.

    ``say`` gets a line for the log, ``log`` the figures of the study.
    """

    def __init__(
        self,
        steps: int,
        out: str | None,
        say: Callable[[str], None],
        log: Callable[[Mapping[str, float]], None] | None = None,
    ) -> None:
        self._steps_left = steps
        self._out = None if out is None else Path(out)
        self._say, self._log = say, log
        self._run: Path | None = None
        self._recording: ExitStack | None = None  # while it is recorded
        self._study: subprocess.Popen[bytes] | None = None  # while it is studied
        self._output: IO[bytes] | None = None

    def begin(self) -> None:
        """Begin to record, once; not where ``gapless run`` records already."""
        if self._run is not None or self._steps_left <= 0:
            return
        if os.environ.get(wire.SPOOL):
            self._steps_left = 0
            self._say("gapless records this training from outside: the callback does nothing")
            return
        with contain_failures() as failures:
            from gapless.launch.run.in_process import record  # noqa: PLC0415 - only if it is used

            with ExitStack() as stack:
                self._run = stack.enter_context(record(self._out))
                self._recording = stack.pop_all()
            atexit.register(self._stop)
        self._give_up(failures)

    def count_step(self, count: int = 1) -> None:
        """Count steps that were made; behind the last one, and when its study is there, act."""
        if self._recording is not None:
            self._steps_left -= count
            if self._steps_left <= 0:
                self._end_recording()
        elif self._study is not None and self._study.poll() is not None:
            self._deliver()

    def end(self) -> None:
        """End with the training: wait some time for the verdict, and say it."""
        if self._recording is not None:
            self._end_recording()
        if self._study is None:
            return
        with contain_failures() as failures:
            self._study.wait(_PATIENCE_S)
            self._deliver()
        self._give_up(failures)

    def _stop(self) -> None:
        """Stop recording; what was replaced is put back."""
        atexit.unregister(self._stop)
        stack, self._recording = self._recording, None
        if stack is not None:
            stack.close()

    def _end_recording(self) -> None:
        with contain_failures() as failures:
            from gapless.integrations.verdicts import begin_verdict  # noqa: PLC0415 - likewise

            self._stop()
            self._steps_left = 0
            if self._run is not None:
                self._output = tempfile.TemporaryFile()  # noqa: SIM115 - read when it is whole
                self._study = begin_verdict(self._run, self._output)
        self._give_up(failures)

    def _deliver(self) -> None:
        with contain_failures() as failures:
            study, self._study = self._study, None
            if study is None or self._output is None:
                return
            with self._output:
                if study.returncode:
                    raise ChildProcessError(f"the study ended with exit code {study.returncode}")
                self._output.seek(0)
                self._log_verdict(_read_verdict(self._output.read()))
        self._give_up(failures)

    def _log_verdict(self, verdict: "LoopVerdict") -> None:
        self._say(verdict.line)
        if self._log is not None:
            self._log(verdict.figures)

    def _give_up(self, failures: list[Exception]) -> None:
        """Say what failed; the training goes on without us."""
        for error in failures:
            self._steps_left, self._study = 0, None
            report_hint = "" if self._run is None else f"; gapless report {self._run}"
            with contain_failures():
                self._say(f"gapless gave up: {describe_error(error)}{report_hint}")


def _read_verdict(content: bytes) -> "LoopVerdict":
    import msgspec  # noqa: PLC0415 - likewise

    from gapless.integrations.verdicts import LoopVerdict  # noqa: PLC0415 - likewise

    return msgspec.json.decode(content, type=LoopVerdict)
