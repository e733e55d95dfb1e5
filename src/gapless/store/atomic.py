"""Files that are written completely or not at all."""

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def write_atomically(target: Path) -> Generator[Path]:
    """Return a path to write to, which becomes ``target`` at the end; removed after a failure."""
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        yield unfinished
        unfinished.replace(target)
    finally:
        with suppress(OSError):
            unfinished.unlink()


def write_named_file(path: Path, content: bytes) -> None:
    """Write a file that the user named: what was in it stays where that fails. Raises ``OSError``.

    A device or a pipe (``/dev/stdout``) is written to, and not replaced by a file.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    with write_atomically(path.resolve()) as unfinished:
        unfinished.write_bytes(content)
