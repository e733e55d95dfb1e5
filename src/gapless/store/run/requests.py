"""Ask the recorder of a running run for a window: a file in its spool (``wire.ASKED``)."""

import time
from pathlib import Path

from gapless import wire
from gapless.store.atomic import write_atomically


def ask_for_window(spool: Path, step: int) -> None:
    """Ask for a window; ranks open it after this step. Raises ``OSError``."""
    request = spool / wire.ASKED
    request.parent.mkdir(exist_ok=True)
    with write_atomically(request) as unfinished:
        unfinished.write_text(f"{time.monotonic_ns()} {step}\n", encoding="ascii")
