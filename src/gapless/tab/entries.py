"""What a folder of logs holds that has a page: recorded runs, and traces of torch.profiler."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from gapless.store.run.runs import is_run

_MAX_FOLDERS: Final = 5_000  # that are looked into: a log folder may be anybody's home
_MAX_DEPTH: Final = 8
# As tensorboard_trace_handler names them: worker, time in ms, ".pt.trace.json".
_TRACE: Final = re.compile(r"(?P<worker>.+?)(\.\d{10,})?\.pt\.trace\.json(\.gz|\.zst)?$")


class TabEntry(Struct, frozen=True):
    """A run, a trace, or a folder of the traces of several workers."""

    name: str  # its path below the folder of logs
    kind: str  # "run" | "trace" | "traces of one job"
    path: Path
    changed_ns: int


def find_entries(logs: Path) -> tuple[TabEntry, ...]:
    """Return what has a page, the newest first; a run's own windows are part of the run."""
    return tuple(sorted(_entries(logs), key=lambda entry: (-entry.changed_ns, entry.name)))


def _entries(logs: Path) -> Iterator[TabEntry]:
    for number, (place, folders, files) in enumerate(os.walk(logs)):
        folder = Path(place)
        depth = len(folder.relative_to(logs).parts)
        if is_run(folder):
            folders.clear()
            yield _entry(logs, folder, "run", list(folder.iterdir()))
            continue
        if depth >= _MAX_DEPTH or number >= _MAX_FOLDERS:
            folders.clear()
        traces = [folder / name for name in sorted(files) if _TRACE.match(name)]
        for trace in traces:
            yield _entry(logs, trace, "trace", [trace])
        workers = {match["worker"] for trace in traces if (match := _TRACE.match(trace.name))}
        if 1 < len(workers) == len(traces):  # else a worker has several spans of time
            yield _entry(logs, folder, "traces of one job", traces)


def _entry(logs: Path, path: Path, kind: str, parts: Sequence[Path]) -> TabEntry:
    times_ns = [part.stat().st_mtime_ns for part in parts if part.exists()]
    name = str(path.relative_to(logs))
    return TabEntry(path.name if name == "." else name, kind, path, max(times_ns, default=0))
