"""Foreign traces → ``Trace``."""

from gapless.formats.kineto import read
from gapless.formats.source import Source, find, spool

__all__ = ["Source", "find", "read", "spool"]
