"""Wait until something is so, however busy the machine is: no test guesses how long that takes."""

import contextlib
import os
import time
from collections.abc import Callable, Generator
from pathlib import Path

PATIENCE_S = 120.0  # what has not come to be by then never will


def until(true: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.01)


@contextlib.contextmanager
def being_read(*pipes: Path) -> Generator[None]:
    """Wait until somebody reads each of these pipes, and let them wait for what never comes."""
    files: list[int] = []

    def opened(pipe: Path) -> bool:
        with contextlib.suppress(OSError):  # ENXIO: nobody reads it yet
            files.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
            return True
        return False

    try:
        for pipe in pipes:
            until(lambda pipe=pipe: opened(pipe))
        yield
    finally:
        for file in files:
            os.close(file)
