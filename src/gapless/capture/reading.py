"""Read a trace from a file of a profiler, or from packed columns."""

import os
from collections.abc import Callable

from gapless.formats import read
from gapless.model.trace import Trace
from gapless.remote.files import local_file
from gapless.store import columns


def read_trace(
    path: str | os.PathLike[str],
    *,
    processes: int | None = None,
    report_entries: Callable[[int], None] = lambda _: None,
) -> Trace:
    """Read one trace file, here or remote; its content tells whether it is packed columns.

    ``processes`` and ``report_entries`` as in ``formats.read``. Raises ``NotFoundError`` if the
    file cannot be opened and ``NotATraceError`` if it holds no trace.
    """
    with local_file(os.fspath(path)) as file:
        if columns.is_packed(file):
            return columns.load(file)
        return read(file, processes=processes, report_entries=report_entries)
