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
