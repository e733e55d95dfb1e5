"""Run a command as it is and with the recorder inside, and read what was recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless import payload, wire
from tests.preloaded import LIMIT_S, ScriptResult, run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SITE = Path(payload.__file__).parent / "site"
SCRIPTS = Path(__file__).parent
PLAIN = {
    name: value
    for name, value in os.environ.items()
    if name not in {"PYTHONPATH", wire.SPOOL, wire.OPTIONS, "PYTHONDONTWRITEBYTECODE"}
} | {"PYTHONDONTWRITEBYTECODE": "1"}


class WrittenLog(NamedTuple):
    """What one process wrote."""

    name: str
    is_complete: bool  # nothing at the end is cut
    marks: list[tuple[int, ...]]
    batches: list[dict[str, int]]
    texts: list[tuple[int, dict[str, Any]]]

    def count(self, kind: int) -> int:
        """Count the marks of a kind."""
        return sum(mark[0] == kind for mark in self.marks)

    def facts(self, noun: str) -> list[dict[str, Any]]:
        """Return the facts of a noun, in the order of writing."""
        return [text for kind, text in self.texts if kind == wire.FACT and text["noun"] == noun]

    def unobserved_reasons(self) -> dict[str, str]:
        """Return what was not observed, and why."""
        return {text["what"]: text["why"] for kind, text in self.texts if kind == wire.UNOBSERVED}

    def kinds(self) -> Counter[int]:
        """Count the frames of JSON."""
        return Counter(kind for kind, _ in self.texts)


def run_plain(command: Sequence[str | Path], folder: Path, **variables: str) -> ScriptResult:
    """Run a command as it is."""
    return run_command(command, folder, {**PLAIN, **variables})


def run_preloaded(command: Sequence[str], folder: Path) -> ScriptResult:
    """Run a script as it is, in a Python that has torch already."""
    return run(command[1:], folder, PLAIN)


def run_recorded(
    command: Sequence[str | Path], folder: Path, spool: Path, **variables: str
) -> ScriptResult:
    """Run a command with the recorder inside, without windows."""
    spool.mkdir(exist_ok=True)
    return run_command(command, folder, {**PLAIN, **recorder_environment(spool), **variables})


def recorder_environment(spool: Path, **options: object) -> Mapping[str, str]:
    """Return what the launcher sets."""
    return {
        "PYTHONPATH": str(SITE),
        "KINETO_LOG_LEVEL": "99",
        wire.SPOOL: str(spool),
        wire.OPTIONS: json.dumps({"windows": False, **options}),
    }


def read_logs(spool: Path) -> dict[str, WrittenLog]:
    """Read every log of a spool, by name."""
    return {path.stem: _read_log(path) for path in sorted(spool.glob("*.log"))}


def logs_by_process(spool: Path) -> dict[int, WrittenLog]:
    """Read every log of a spool, each process by itself: one may go on where another ended."""
    logs: dict[int, WrittenLog] = {}
    for path in sorted(spool.glob("*.log")):
        frames, length = wire.frames(path.read_bytes())
        is_complete, log = length == path.stat().st_size, None
        for frame in frames:
            if frame.kind == wire.PROCESS:
                log = logs[frame.text()["pid"]] = WrittenLog(path.stem, is_complete, [], [], [])
            assert log is not None
            _add_frame(log, frame)
    return logs


def script_command(name: str, *arguments: str) -> list[str]:
    """Return the command of a script that lies beside the tests."""
    return [sys.executable, str(SCRIPTS / name), *arguments]


def run_command(
    command: Sequence[str | Path], folder: Path, environment: Mapping[str, str]
) -> ScriptResult:
    """Run a command with these variables alone."""
    process = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return ScriptResult(process.returncode, process.stdout, process.stderr)


def _read_log(path: Path) -> WrittenLog:
    data = path.read_bytes()
    frames, length = wire.frames(data)
    log = WrittenLog(path.stem, length == len(data), [], [], [])
    for frame in frames:
        _add_frame(log, frame)
    return log


def _add_frame(log: WrittenLog, frame: wire.Frame) -> None:
    if frame.kind == wire.MARKS:
        log.marks.extend(wire.MARK.iter_unpack(frame.body))
    elif frame.kind == wire.BATCHES:
        rows = wire.BATCH.iter_unpack(frame.body)
        log.batches.extend(dict(zip(wire.BATCH_FIELDS, row, strict=True)) for row in rows)
    else:
        log.texts.append((frame.kind, frame.text()))
