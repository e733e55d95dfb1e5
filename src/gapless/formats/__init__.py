"""Foreign traces → ``Trace``."""

import os
from pathlib import Path

from gapless.model.trace import Trace


def read(source: str | os.PathLike[str], *, processes: int | None = None) -> Trace:
    """Read one trace file: plain JSON, gzip or zstd, told apart by content."""
    from gapless.formats import kineto

    return kineto.read(Path(source))
