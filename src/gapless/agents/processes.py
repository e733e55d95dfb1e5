"""Commands of gapless that answer tools: each a process of its own, which can be stopped."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from msgspec import Struct

from gapless.errors import GaplessError

_LOOK_S: Final = 0.05
_PROGRESS_S: Final = 1.0
_PATIENCE_S: Final = 10.0  # after Ctrl-C, in which arms end and put back what they have changed
_MAX_OUTPUT: Final = 64 << 20  # bytes
Report = Callable[[float], None]  # of seconds since the start


class CancelledError(Exception):
    """A tool whose answer nobody waits for any more, or whose time is over."""


class ToolCall(Struct, frozen=True):
    """What a call of a tool may be asked for while it goes on."""

    is_cancelled: threading.Event
    report: Report


def run_command(words: Sequence[str], folder: Path, timeout_s: float, call: ToolCall) -> str:
    """Run a command of gapless and return what it prints. Raises ``GaplessError`` if it fails."""
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "100", "PYTHONUTF8": "1"}
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(  # noqa: S603 - this interpreter, a command of ours
            [sys.executable, "-P", "-m", "gapless", *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        try:
            _wait(process, timeout_s, call)
        finally:
            _end(process)
        code, text = process.returncode, _read(output)
        if code not in {0, 1}:
            complaint = _read(errors).strip().removeprefix("gapless: ")
            raise GaplessError(complaint or f"gapless {words[0]} ended with exit code {code}")
        return text or _read(errors)


def _wait(process: "subprocess.Popen[bytes]", timeout_s: float, call: ToolCall) -> None:
    """Wait for the end. Raises ``CancelledError`` where that is not to be waited for."""
    start_s = reported_s = time.monotonic()
    while process.poll() is None:
        now_s = time.monotonic()
        if call.is_cancelled.wait(_LOOK_S):
            raise CancelledError("the client cancelled the request")
        if now_s - start_s > timeout_s:
            raise CancelledError(f"it took longer than {timeout_s:.0f} s, and was stopped")
        if now_s - reported_s >= _PROGRESS_S:
            reported_s = now_s
            call.report(now_s - start_s)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a command that still runs, and all that it started."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE_S)
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_MAX_OUTPUT).decode(errors="replace")
