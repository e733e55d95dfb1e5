"""A moment, printed once: as text or as JSON."""

import sys
import time
from typing import Final

from gapless.live.view import Watcher
from gapless.report.text.console import pen_for
from gapless.screen.document import live_json
from gapless.screen.page import page_lines

_BETWEEN_LOOKS_S: Final = 1.0  # rates are what counters grew between two looks


def print_once(watcher: Watcher, *, as_json: bool, width: int | None = None) -> None:
    """Look twice, a second apart, and print what is to be seen. Raises ``GaplessError``."""
    watcher.study_when_due()
    watcher.look()
    time.sleep(_BETWEEN_LOOKS_S)
    view = watcher.look()
    if as_json:
        sys.stdout.write(live_json(view))
        return
    pen = pen_for(sys.stdout, width)
    pen.write(page_lines(view, pen))
