"""Foreign traces → ``Trace``."""

from gapless.formats.kineto import read
from gapless.formats.source import find, spool

__all__ = ["find", "read", "spool"]
