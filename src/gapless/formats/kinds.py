"""Which format a file has, told from its first bytes, and its name where these do not say."""

from enum import StrEnum
from pathlib import Path
from typing import Final

_SQLITE: Final = b"SQLite format 3\0"
_RAW_SUFFIXES: Final = (".nsys-rep", ".qdrep")
_XPLANE_SUFFIXES: Final = (".xplane.pb", ".xplane.pb.gz")
_PROBE_BYTES: Final = 64


class Kind(StrEnum):
    """A format."""

    CHROME = "chrome"  # Chrome's JSON: torch.profiler's, and others'
    NSIGHT = "nsight"
    NSIGHT_RAW = "nsight-raw"
    XPLANE = "xplane"


def kind_of(path: Path) -> Kind:
    """Return the format of a file. Raises ``OSError`` if it cannot be read."""
    with path.open("rb") as file:
        head = file.read(_PROBE_BYTES)
    if head.startswith(_SQLITE):
        return Kind.NSIGHT
    if path.name.lower().endswith(_RAW_SUFFIXES):
        return Kind.NSIGHT_RAW
    if path.name.lower().endswith(_XPLANE_SUFFIXES):
        return Kind.XPLANE
    return Kind.CHROME
