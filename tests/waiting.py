"""Wait until something is so, however busy the machine is: no test guesses how long that takes."""

import contextlib
import os
import time
from collections.abc import Callable, Generator
from pathlib import Path

PATIENCE_S = 120.0  # what has not come to be by then never will


def wait_until(condition: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.01)


@contextlib.contextmanager
def hold_pipes(*pipes: Path) -> Generator[None]:
    """Wait until somebody reads each of these pipes, and let them wait for what never comes."""
    files: list[int] = []

    def open_writer(pipe: Path) -> bool:
        with contextlib.suppress(OSError):  # ENXIO: nobody reads it yet
            files.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
            return True
        return False

    try:
        for pipe in pipes:
            wait_until(lambda pipe=pipe: open_writer(pipe))
        yield
    finally:
        for file in files:
            os.close(file)
