"""One file of any format → a trace: its content tells which, and for some its name."""

import os
from collections.abc import Callable
from pathlib import Path

from gapless.errors import NotATraceError, NotFoundError
from gapless.formats import kineto
from gapless.formats.kinds import Kind, kind_of
from gapless.formats.nsight import report
from gapless.formats.perfetto import slices
from gapless.formats.rocprof import sdk
from gapless.formats.xla import reading, viewed
from gapless.model.trace import Trace


def read(
    source: str | os.PathLike[str],
    *,
    processes: int | None = None,
    report_entries: Callable[[int], None] = lambda _: None,
) -> Trace:
    """Read one trace file of any format that is known.

    ``processes`` and ``report_entries`` as for ``kineto.read``. Raises ``NotFoundError`` if the
    file cannot be opened and ``NotATraceError`` if it holds no trace.
    """
    path = Path(source)
    try:
        kind = kind_of(path)
        if kind is Kind.CHROME:
            trace = kineto.read(path, processes=processes, report_entries=report_entries)
            return viewed.interpret_viewed(trace) if viewed.is_viewed(trace) else trace
        trace = _read_other(kind, path)
    except IsADirectoryError as error:
        raise NotATraceError(f"{path}: is a folder, not a file") from error
    except OSError as error:
        raise NotFoundError(f"{path}: {error.strerror or error}") from error
    report_entries(trace.written_events)
    return trace


def _read_other(kind: Kind, path: Path) -> Trace:
    readers = {
        Kind.NSIGHT: report.read_nsight,
        Kind.NSIGHT_RAW: report.read_raw,
        Kind.XPLANE: reading.read_xplane,
        Kind.PERFETTO: slices.read_perfetto,
        Kind.ROCPROF: sdk.read_rocprof,
    }
    return readers[kind](path)
