"""Ask the recorder of a running run for a window: a link in its spool (``wire.ASKED``)."""

import os
import time
from contextlib import suppress
from pathlib import Path

from gapless import wire


def ask_for_window(spool: Path, step: int) -> None:
    """Ask for a window; ranks open it after this step. Raises ``OSError``."""
    link = spool / wire.ASKED
    link.parent.mkdir(exist_ok=True)
    unfinished = link.with_name(f"{link.name}-{os.getpid()}")
    with suppress(FileNotFoundError):
        unfinished.unlink()
    unfinished.symlink_to(f"{time.monotonic_ns()}-{step}")
    unfinished.replace(link)
