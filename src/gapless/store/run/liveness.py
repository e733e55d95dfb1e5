"""Whether a run is still going on, although nobody may be left to record its end."""

import fcntl
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil

from gapless import wire
from gapless.store.run.manifest import RUNNING, ManifestDocument

_CLOCK_CHANGE_S: Final = 60  # by which the clock may have been set since the run began
_MAX_SILENCE_S: Final = 60  # a launcher writes samples at least this often


def goes_on(document: ManifestDocument, folder: Path) -> bool:
    """Return whether a launcher or a recorded process of a run is alive.

    For a run on another host only the age of its files is known.
    """
    manifest = document.manifest
    if manifest.status != RUNNING:
        return False
    if document.launcher is None or manifest.host not in {"", platform.node()}:
        return _is_written_lately(folder)
    started_s = manifest.started_unix_ns / 1e9
    spool = document.spool
    return _is_alive(document.launcher, started_s) or _is_written(spool) or _is_awaited(spool)


def _is_alive(pid: int, started_s: float) -> bool:
    """Return whether a process that existed then exists now: numbers are reused."""
    try:
        process = psutil.Process(pid)
        return (
            process.create_time() <= started_s + _CLOCK_CHANGE_S
            and process.status() != psutil.STATUS_ZOMBIE
        )
    except (psutil.Error, ValueError, OverflowError):
        return False


def _is_written(spool: Path | None) -> bool:
    """Return whether a process holds a log: whoever writes one locks it as long as it lives."""
    return spool is not None and any(_is_locked(log) for log in _logs(spool))


def _logs(folder: Path) -> Iterator[Path]:
    try:
        yield from folder.glob("*.log")
    except OSError:
        return


def _is_locked(log: Path) -> bool:
    try:
        with log.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _is_awaited(spool: Path | None) -> bool:
    """Return whether a process that knows of the spool lives but has not written there yet."""
    is_written = spool is None or any(log.name.startswith("rank") for log in _logs(spool))
    if spool is None or is_written or not spool.is_dir():
        return False
    return any(_has_spool(process, spool) for process in psutil.process_iter())


def _has_spool(process: psutil.Process, spool: Path) -> bool:
    try:
        return process.environ().get(wire.SPOOL) == str(spool)
    except psutil.Error:
        return False


def _is_written_lately(folder: Path) -> bool:
    newest = max((_modified_s(log) for log in folder.glob("**/*.log")), default=0.0)
    return newest > time.time() - _MAX_SILENCE_S


def _modified_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
