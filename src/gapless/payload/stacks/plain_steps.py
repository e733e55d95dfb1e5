"""Which looks count: those at plain steps, if there are enough of them.

While a window is open, tracing makes Python longer than all else, with stacks several times: of a
training whose steps take long, a seventh of all looks would be at such steps.
"""

from __future__ import annotations

import sys

from .. import recorder
from ..process_state import keep_fields

ENOUGH_LOOKS = 50  # at plain steps: from then on, those at others do not count
_WINDOWS = f"{recorder.__package__}.windows"
_looks = keep_fields(plain=0)


def counts() -> bool:
    """Return whether a look at the training thread counts, and note it."""
    windows = sys.modules.get(_WINDOWS)
    if windows is None or not windows.is_tracing():
        _looks.plain += 1
        return True
    return bool(_looks.plain < ENOUGH_LOOKS)


def forget() -> None:
    """Begin anew: another thread is looked at."""
    _looks.plain = 0
