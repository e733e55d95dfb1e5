"""The interpreter that runs trainings here: which it is, and what it says of its packages.

``gapless run`` starts the command as it is typed, so the shell finds the interpreter: what is
checked is that of the last run in this folder, else the first ``python`` on ``PATH``. It is asked
in a process of its own.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self, cast

import msgspec
from msgspec import Struct, field

from gapless.launch.probing import PROBE

_NAMES: Final = ("python", "python3")
_HIDDEN_VARIABLES: Final = ("GAPLESS_SPOOL", "GAPLESS_OPTIONS")
_MAX_LAST_WORDS: Final = 200  # characters


class PillowBuild(Struct, frozen=True):
    """How Pillow was built."""

    version: str | None = None
    turbo: bool | None = None  # with libjpeg-turbo
    jpeg: str | None = None  # version of the JPEG library


class PackageFacts(Struct, frozen=True):
    """What an interpreter says of itself; ``None``: it does not know."""

    executable: str
    python: str
    packages: Mapping[str, str] = field(default_factory=dict[str, str])  # version by name
    pillow: PillowBuild | None = None  # None: not installed
    pillow_why: str | None = None  # it cannot be imported
    vision_needs: str | None = None  # the torch that torchvision demands: "==2.13.0"
    torch: str | None = None  # version; None: not installed
    torch_why: str | None = None  # it cannot be imported
    cuda: str | None = None  # that torch was built with
    hip: str | None = None
    debug: bool | None = None
    threads: int | None = None  # of torch's operators
    architectures: tuple[str, ...] = ()  # "sm_90", "compute_90"
    cudnn: int | None = None
    cudnn_why: str | None = None  # torch refuses the one that it found
    nccl: str | None = None
    sees_gpu: bool | None = None
    devices: int | None = None
    gpu_why: str | None = None  # what torch says about a GPU that it cannot use
    built: bool = False  # how torch was built is known; it need not have been imported
    complete: bool = False  # torch was imported, or there is none


class InterpreterReport(Struct, frozen=True):
    """An interpreter, and what it says."""

    python: str | None = None  # its path; None: none was found
    origin: str = "none was looked for"  # "first python on PATH"
    is_guess: bool = True  # nobody named it, nor did a run use it
    facts: PackageFacts | None = None
    why: str | None = None  # facts are absent, or incomplete


class InterpreterChoice(Struct, frozen=True):
    """An interpreter, and how it came to be chosen."""

    python: str | None
    origin: str
    is_guess: bool


def choose_interpreter(
    named: str | None, recorded: str | None, path: str | None
) -> InterpreterChoice:
    """Choose the interpreter: that which was named, that of the last run, the first on a PATH."""
    if named is not None:
        return InterpreterChoice(shutil.which(named, path=path) or named, "--python", False)  # noqa: FBT003
    if recorded is not None and Path(recorded).exists():
        return InterpreterChoice(recorded, "of the last run here", False)  # noqa: FBT003
    for name in _NAMES:
        python = shutil.which(name, path=path)
        if python is not None:
            return InterpreterChoice(python, f"the first {name} on PATH", True)  # noqa: FBT003
    return InterpreterChoice(None, "no python is on PATH", True)  # noqa: FBT003


class InterpreterQuery:
    """A question to an interpreter, answered by a process of its own; used as a context."""

    def __init__(self, choice: InterpreterChoice, environment: Mapping[str, str]) -> None:
        self._choice = choice
        self._began_s = time.monotonic()
        self._process: subprocess.Popen[bytes] | None = None
        self._why: str | None = choice.origin if choice.python is None else None
        if choice.python is None:
            return
        variables = {
            name: value for name, value in environment.items() if name not in _HIDDEN_VARIABLES
        }
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the user's own interpreter
                [choice.python, str(PROBE), "--packages"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=variables,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            words = error.strerror if isinstance(error, OSError) else str(error)
            self._why = f"{choice.python} cannot be started: {words}"

    def __enter__(self) -> Self:
        """Return itself: the process runs already."""
        return self

    def __exit__(self, *_: object) -> None:
        """End what is left of the process."""
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()

    def wait(self, seconds: float) -> InterpreterReport:
        """Return what it said within so many seconds."""
        facts: PackageFacts | None = None
        why = self._why
        if self._process is not None:
            out, errors, is_late = _listen(self._process, seconds)
            facts = _parse_facts(out)
            if facts is None or not facts.complete:
                why = self._explain(self._process.returncode, errors, is_late=is_late)
        choice = self._choice
        return InterpreterReport(choice.python, choice.origin, choice.is_guess, facts, why)

    def _explain(self, code: int, errors: bytes, *, is_late: bool) -> str:
        """Return why not all is known."""
        if is_late:
            elapsed_s = time.monotonic() - self._began_s
            return f"the interpreter did not import torch within {elapsed_s:.1f} s"
        words = errors.decode(errors="replace").strip().splitlines()
        last_words = f": {words[-1][:_MAX_LAST_WORDS]}" if words else ""
        return f"the interpreter ended with {code}{last_words}"


def _listen(process: subprocess.Popen[bytes], seconds: float) -> tuple[bytes, bytes, bool]:
    """Return output and errors of a process, and whether it had to be ended."""
    try:
        return (*process.communicate(timeout=max(seconds, 0.0)), False)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        return (*process.communicate(), True)


def _parse_facts(output: bytes) -> PackageFacts | None:
    """Return the last of the lines that are the probe's; start-up code may print others."""
    facts = None
    for line in output.splitlines():
        with suppress(ValueError, KeyError, TypeError, msgspec.ValidationError):
            message = cast("dict[str, Any]", json.loads(line))
            facts = msgspec.convert(message["packages"], PackageFacts)
    return facts
