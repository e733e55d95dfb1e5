"""Start commands plainly and under gapless, and look at what is left of them."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gapless import wire
from tests import waiting

PATIENCE_S, wait_until = waiting.PATIENCE_S, waiting.wait_until
GAPLESS = (sys.executable, "-m", "gapless")
# A program that goes on until gapless has looked around twice. Its argument: what `LOOKS` is.
SAMPLED_PROGRAM = """import os, sys, time
def looks():
    return open(sys.argv[1], 'rb').read().count(b'"values"') if os.path.exists(sys.argv[1]) else 0
enough = looks() + 2
while looks() < enough:
    time.sleep(0.02)
"""
SAMPLES_LOG = '"$GAPLESS_SPOOL/samples.log"'
_REPORT_START = re.compile(rb"gapless(?:: | \xc2\xb7 )")  # how what we print begins


def run_plainly(
    command: Sequence[str],
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
) -> subprocess.CompletedProcess[bytes]:
    """Run a command as it is, in a process group of its own."""
    return subprocess.run(
        command,
        cwd=cwd,
        env=env,
        input=stdin,
        capture_output=True,
        process_group=0,
        timeout=PATIENCE_S,
        check=False,
    )


def run(
    command: Sequence[str],
    cwd: Path,
    *options: str,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
) -> subprocess.CompletedProcess[bytes]:
    """Run a command under ``gapless run``."""
    return run_plainly((*GAPLESS, "run", *options, *command), cwd, env, stdin)


def start(
    command: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a command under ``gapless run``, in a process group of its own."""
    return subprocess.Popen(
        (*GAPLESS, "run", *command),
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
    )


def strip_report(stderr: bytes) -> bytes:
    """Return what the command wrote to standard error, without our report at its end."""
    return _REPORT_START.split(stderr)[0]


def run_folder(cwd: Path) -> Path:
    """Return the one run folder."""
    (run_folder,) = (cwd / ".gapless" / "runs").iterdir()
    return run_folder


def samples(path: Path) -> list[dict[str, Any]]:
    """Return the launcher's samples of a run."""
    frames, _ = wire.frames((path / "logs" / "samples.log").read_bytes())
    return [frame.text()["values"] for frame in frames if frame.kind == wire.SAMPLE]


def read_unobserved(path: Path) -> dict[str, str]:
    """Return what the launcher could not observe, and why."""
    frames, _ = wire.frames((path / "logs" / "samples.log").read_bytes())
    bodies = [frame.text() for frame in frames if frame.kind == wire.UNOBSERVED]
    return {body["what"]: body["why"] for body in bodies}


def read_text(path: Path) -> str:
    """Return what a file holds; nothing if it is not there yet."""
    return path.read_text() if path.exists() else ""


def read_bytes(path: Path) -> bytes:
    """Return what a file holds; nothing if it is gone."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def is_alive(pid: int) -> bool:
    """Return whether a process lives."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
