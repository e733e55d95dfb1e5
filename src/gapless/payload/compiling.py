"""Whether torch.compile is looking on: what it meets of ours there must come to nothing.

Torch tells since 2.3. With an older one nothing tells, and what is compiled may hold calls of ours.
"""

from __future__ import annotations

import sys
from typing import Any

_SINCE = (2, 3)


def asker() -> Any:
    """Return torch's own function that tells; of a torch that has none, one that says no.

    For when torch has been imported.
    """
    compiler = sys.modules.get("torch.compiler")
    return getattr(compiler, "is_compiling", None) or _never


def later_asker(torch: Any) -> Any:
    """Return a function that tells, while torch is still on its way: it asks when it is called."""
    if not _is_told(str(getattr(torch, "__version__", ""))):
        return _never

    def asks() -> bool:
        told = getattr(torch.compiler, "is_compiling", None)  # not in all builds before a release
        return told is not None and bool(told())

    return asks


def _is_told(version: str) -> bool:
    """Tell whether a torch of this version tells; one of an unknown version is a new one."""
    numbers = version.partition("+")[0].split(".")[:2]
    if len(numbers) < len(_SINCE) or not all(part.isdigit() for part in numbers):
        return True
    return tuple(map(int, numbers)) >= _SINCE


def _never() -> bool:
    return False
