"""Whether torch.compile is looking on: what it meets of ours there must come to nothing.

Torch says so since 2.3. With an older one nothing does, and what is compiled may hold calls of
ours.
"""

from __future__ import annotations

import sys
from typing import Any


def find_is_compiling() -> Any:
    """Return torch's own function for it; ``None`` where it has none, or is not imported."""
    return getattr(sys.modules.get("torch.compiler"), "is_compiling", None)


def get_is_compiling() -> Any:
    """Return torch's function once it has been imported; where it has none, one that says no."""
    return find_is_compiling() or _never


def defer_is_compiling(torch: Any) -> Any:
    """Return a function for it while torch is still being imported: it asks when it is called."""

    def is_compiling() -> bool:
        ask = getattr(getattr(torch, "compiler", None), "is_compiling", None)
        return ask is not None and bool(ask())

    return is_compiling


def _never() -> bool:
    return False
