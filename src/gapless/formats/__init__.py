"""Foreign traces → ``Trace``."""

from gapless.formats.reader import read
from gapless.formats.text.source import find, spool

__all__ = ["find", "read", "spool"]
