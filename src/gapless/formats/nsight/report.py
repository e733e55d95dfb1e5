"""A report of Nsight Systems, exported or not → a trace."""

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import numpy as np
from msgspec.structs import replace

from gapless.errors import NotATraceError
from gapless.formats.nsight.activities import Names, add_activities, process_of
from gapless.formats.nsight.database import Database, open_database
from gapless.formats.nsight.facts import read_facts
from gapless.formats.nsight.host import add_host, thread_tracks
from gapless.formats.parts import TraceParts, build_trace
from gapless.formats.text import source
from gapless.model.trace import Trace

_EXPORT_S: Final = 1800  # seconds that nsys may take; a report of gigabytes takes minutes


def read_nsight(path: Path) -> Trace:
    """Read an exported report. Raises ``NotATraceError`` if it is none, or holds nothing."""
    with open_database(path) as database:
        if not database.columns:
            raise NotATraceError(f"{path}: the database has no tables")
        if any(name.startswith("rocpd_") for name in database.columns):
            raise NotATraceError(
                f"{path}: a database of rocprofv3 (rocpd), which is not read; record with "
                "--output-format json, or convert it: "
                f"rocpd convert -i {path.name} --output-format pftrace"
            )
        if not any(name.startswith(("CUPTI_", "NVTX_", "OSRT_")) for name in database.columns):
            raise NotATraceError(
                f"{path}: a database, but none of Nsight Systems: it has no table of CUDA, NVTX or "
                "the operating system"
            )
        parts = TraceParts()
        names = _read_names(database)
        add_activities(database, names, parts)
        add_host(database, names, parts)
        _name_threads(database, names, parts)
        facts = read_facts(database, parts)
        parts.notes = [*database.damage, *parts.notes]
    return build_trace(path, parts, facts)


def read_raw(path: Path) -> Trace:
    """Read a report that is not exported, where ``nsys`` is there to export it.

    Raises ``NotATraceError`` with the command that exports it, where it is not.
    """
    nsys = shutil.which("nsys")
    command = f"nsys export --type sqlite --output {path.stem}.sqlite {path.name}"
    if nsys is None:
        raise NotATraceError(
            f"{path}: a report of Nsight Systems; export it where nsys is installed, and open what "
            f"it writes: {command}"
        )
    with tempfile.TemporaryDirectory(prefix="gapless-") as folder:
        target = Path(folder, "report.sqlite")
        arguments = [nsys, "export", "--type", "sqlite", "--output", str(target), str(path)]
        try:
            answer = subprocess.run(  # noqa: S603  the user's own nsys, on the user's own file
                arguments, capture_output=True, timeout=_EXPORT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotATraceError(f"{path}: nsys could not export it: {error}") from error
        if answer.returncode or not target.is_file():
            lines = answer.stderr.decode(errors="replace").split("\n")
            complaint = next((line for line in reversed(lines) if line.strip()), "it said nothing")
            raise NotATraceError(f"{path}: nsys could not export it: {complaint}; {command}")
        trace = read_nsight(target)
    return _with_path(trace, path)


def _with_path(trace: Trace, path: Path) -> Trace:
    return replace(trace, path=str(path), rank=source.rank_of(path))


def _read_names(database: Database) -> Names:
    strings: dict[int, str] = {}
    if database.has("StringIds", "id", "value"):
        strings = {
            number: value
            for number, value in database.texts("StringIds", ("id", "value"))
            if isinstance(number, int) and isinstance(value, str)
        }
    processes: set[int] = set()
    if database.has("CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid"):
        (threads,) = database.integers("CUPTI_ACTIVITY_KIND_RUNTIME", ("globalTid",))
        processes.update(np.unique(process_of(threads)).tolist())
    return Names(strings, {process: number for number, process in enumerate(sorted(processes))})


def _name_threads(database: Database, names: Names, parts: TraceParts) -> None:
    if database.has("ThreadNames", "nameId", "globalTid"):
        labels, threads = database.integers("ThreadNames", ("nameId", "globalTid"))
        known_tracks = len(parts.tracks)
        tracks = thread_tracks(parts, threads).tolist()
        for track, label in zip(tracks, labels.tolist(), strict=True):
            if track < known_tracks and label in names.strings:
                parts.thread_names[track] = names.strings[label]
    if database.has("PROCESSES", "pid", "name"):
        used = {process for process, _ in parts.tracks}
        for pid, name in database.texts("PROCESSES", ("pid", "name")):
            if pid in used and isinstance(name, str):
                parts.process_names[pid] = name
