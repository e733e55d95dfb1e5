"""Interpreters that work for this process, and the frames that go over the pipes between them.

Not by ``multiprocessing``: users call ``gapless.open`` from scripts without a guarded main.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

_LENGTH_BYTES: Final = 8  # before each frame


def start_interpreter(
    code: str,
    arguments: Sequence[str] = (),
    *,
    stdin: int = subprocess.DEVNULL,
    stderr: int | None = subprocess.DEVNULL,
    environment: Mapping[str, str] | None = None,
) -> "subprocess.Popen[bytes]":
    """Start a Python that runs some code with arguments, and writes frames to its stdout.

    Isolated and without site, but with the path of this process: the same packages as here,
    whatever the environment says, and no start-up file of anybody's runs. Raises ``OSError``.
    """
    package_folder = Path(__file__).resolve().parents[2]
    search_path = [str(package_folder), *(entry or str(Path.cwd()) for entry in sys.path)]
    set_path = f"import sys; sys.path[:] = sys.argv[{1 + len(arguments)}:]"
    return subprocess.Popen(  # noqa: S603  our own interpreter and code
        [sys.executable, "-I", "-S", "-c", f"{set_path}; {code}", *arguments, *search_path],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=environment,
    )


def send_frame(pipe: IO[bytes], data: bytes) -> None:
    """Write a frame."""
    pipe.write(len(data).to_bytes(_LENGTH_BYTES, "little"))
    pipe.write(data)
    pipe.flush()


def receive_frame(pipe: IO[bytes], max_bytes: int | None = None) -> bytes | None:
    """Read a frame; ``None`` where the pipe ends before its last byte, or it would be longer."""
    head = pipe.read(_LENGTH_BYTES)
    length = int.from_bytes(head, "little")
    if len(head) < _LENGTH_BYTES or (max_bytes is not None and length > max_bytes):
        return None
    data = pipe.read(length)
    return data if len(data) == length else None


def count_processors() -> int:
    """Count the processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
