"""How often a thread lost its processor to others."""

from __future__ import annotations

from typing import Any

resource: Any
try:
    import resource
except ImportError:  # pragma: no cover - not a Unix
    resource = None

_RUSAGE_THREAD = getattr(resource, "RUSAGE_THREAD", None)  # of Linux


def count_preemptions() -> int | None:
    """Return how often the calling thread lost its processor to others; None: it is not known."""
    if _RUSAGE_THREAD is None:
        return None
    count: int = resource.getrusage(_RUSAGE_THREAD).ru_nivcsw
    return count
