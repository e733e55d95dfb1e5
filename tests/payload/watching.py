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
from tests.preloaded import LIMIT_S, Ran, run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SITE = Path(payload.__file__).parent / "site"
HERE = Path(__file__).parent
PLAIN = {
    name: value
    for name, value in os.environ.items()
    if name not in {"PYTHONPATH", wire.SPOOL, wire.OPTIONS, "PYTHONDONTWRITEBYTECODE"}
} | {"PYTHONDONTWRITEBYTECODE": "1"}


class Log(NamedTuple):
    """What one process wrote."""

    name: str
    whole: bool  # nothing at the end is cut
    marks: list[tuple[int, ...]]
    batches: list[dict[str, int]]
    texts: list[tuple[int, dict[str, Any]]]

    def count(self, kind: int) -> int:
        """Count the marks of a kind."""
        return sum(mark[0] == kind for mark in self.marks)

    def facts(self, noun: str) -> list[dict[str, Any]]:
        """Give the facts of a noun, in the order of writing."""
        return [text for kind, text in self.texts if kind == wire.FACT and text["noun"] == noun]

    def unseen(self) -> dict[str, str]:
        """Give what was not observed, and why."""
        return {text["what"]: text["why"] for kind, text in self.texts if kind == wire.UNSEEN}

    def kinds(self) -> Counter[int]:
        """Count the frames of JSON."""
        return Counter(kind for kind, _ in self.texts)


def plainly(command: Sequence[str | Path], folder: Path, **more: str) -> Ran:
    """Run a command as it is."""
    return execute(command, folder, {**PLAIN, **more})


def preloaded(command: Sequence[str], folder: Path) -> Ran:
    """Run a script as it is, in a Python that has torch already."""
    return run(command[1:], folder, PLAIN)


def watched(command: Sequence[str | Path], folder: Path, spool: Path, **more: str) -> Ran:
    """Run a command with the recorder inside, without windows."""
    spool.mkdir(exist_ok=True)
    return execute(command, folder, {**PLAIN, **environment(spool), **more})


def environment(spool: Path, **options: object) -> Mapping[str, str]:
    """Give what the launcher sets."""
    return {
        "PYTHONPATH": str(SITE),
        "KINETO_LOG_LEVEL": "99",
        wire.SPOOL: str(spool),
        wire.OPTIONS: json.dumps({"windows": False, **options}),
    }


def logs(spool: Path) -> dict[str, Log]:
    """Read every log of a spool, by name."""
    return {path.stem: _log(path) for path in sorted(spool.glob("*.log"))}


def by_process(spool: Path) -> dict[int, Log]:
    """Read every log of a spool, each process by itself: one may go on where another ended."""
    found: dict[int, Log] = {}
    for path in sorted(spool.glob("*.log")):
        frames, length = wire.frames(path.read_bytes())
        whole, log = length == path.stat().st_size, None
        for frame in frames:
            if frame.kind == wire.PROCESS:
                log = found[frame.text()["pid"]] = Log(path.stem, whole, [], [], [])
            assert log is not None
            _add(log, frame)
    return found


def script(name: str, *arguments: str) -> list[str]:
    """Give the command of a script that lies beside the tests."""
    return [sys.executable, str(HERE / name), *arguments]


def execute(command: Sequence[str | Path], folder: Path, environment: Mapping[str, str]) -> Ran:
    """Run a command with these variables alone."""
    ran = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def _log(path: Path) -> Log:
    data = path.read_bytes()
    found, length = wire.frames(data)
    log = Log(path.stem, length == len(data), [], [], [])
    for frame in found:
        _add(log, frame)
    return log


def _add(log: Log, frame: wire.Frame) -> None:
    if frame.kind == wire.MARKS:
        log.marks.extend(wire.MARK.iter_unpack(frame.body))
    elif frame.kind == wire.BATCHES:
        rows = wire.BATCH.iter_unpack(frame.body)
        log.batches.extend(dict(zip(wire.BATCH_FIELDS, row, strict=True)) for row in rows)
    else:
        log.texts.append((frame.kind, frame.text()))
