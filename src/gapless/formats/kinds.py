"""Which format a file has, told from its first bytes, and its name where these do not say."""

from enum import StrEnum
from pathlib import Path
from typing import Final

from gapless.formats.text.stream import TraceText

_SQLITE: Final = b"SQLite format 3\0"
_RAW_SUFFIXES: Final = (".nsys-rep", ".qdrep")
_XPLANE_SUFFIXES: Final = (".xplane.pb", ".xplane.pb.gz")
_PERFETTO_SUFFIXES: Final = (".pftrace", ".perfetto-trace", ".pftrace.gz", ".perfetto-trace.gz")
_ROCPROF: Final = b'"rocprofiler-sdk-tool"'
_PROBE_BYTES: Final = 64


class Kind(StrEnum):
    """A format."""

    CHROME = "chrome"  # Chrome's JSON: torch.profiler's, and others'
    NSIGHT = "nsight"
    NSIGHT_RAW = "nsight-raw"
    XPLANE = "xplane"
    PERFETTO = "perfetto"
    ROCPROF = "rocprof"


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
    if path.name.lower().endswith(_PERFETTO_SUFFIXES):
        return Kind.PERFETTO
    return Kind.ROCPROF if _ROCPROF in _first_text(path) else Kind.CHROME


def _first_text(path: Path) -> bytes:
    """Return the first bytes of a file as they are when inflated."""
    return next(TraceText(path).pieces(), b"")[:_PROBE_BYTES]
