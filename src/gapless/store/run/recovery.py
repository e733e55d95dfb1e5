"""What a run left in its spool because its launcher was killed.

A log in the run folder is always the beginning of the one in the spool. Only logs and saved windows
are taken, and only these are removed: ``run.json`` may name any folder.
"""

import gzip
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from shutil import copyfileobj
from typing import Final

from gapless.model.recording import Unobserved
from gapless.store.atomic import write_atomically
from gapless.store.logs.framing import is_log

LOGS: Final = "logs"
WINDOWS: Final = "windows"
_PLAN_FOLDER: Final = "plan"  # of ranks: what they agreed upon
_SPOOL_PREFIX: Final = "gapless-"  # how the name of every spool begins


def find_logs(folder: Path, spool: Path | None) -> list[Path]:
    """Return each log of a run where most of it is: in its folder or in its spool."""
    logs_by_name: dict[str, Path] = {}
    for log in (*_files(folder, "*.log"), *_files(folder / LOGS, "*.log"), *_spool_logs(spool)):
        known_log = logs_by_name.get(log.name)
        if known_log is None or _size(log) > _size(known_log):
            logs_by_name[log.name] = log
    return [logs_by_name[name] for name in sorted(logs_by_name)]


def _spool_logs(spool: Path | None) -> Iterator[Path]:
    if spool is not None and spool.name.startswith(_SPOOL_PREFIX):
        yield from (log for log in _files(spool, "*.log") if is_log(log))


def _files(folder: Path, pattern: str) -> list[Path]:
    """Return the files of a folder, none if it is not there; links do not count."""
    with suppress(OSError):
        return [path for path in folder.glob(pattern) if path.is_file() and not path.is_symlink()]
    return []


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def adopt(folder: Path, spool: Path) -> tuple[Unobserved, ...]:
    """Move what is left in a spool into the run folder; return what could not be moved."""
    try:
        for log in find_logs(folder, spool):
            if log.parent == spool:
                _copy_log(log, folder / LOGS / log.name)
        for log in _spool_logs(spool):
            log.unlink()
        for window in _windows(spool):
            _pack_window(window, folder / WINDOWS / f"{window.name}.gz")
            window.unlink()
    except OSError as error:
        return (Unobserved(f"what is left in {spool}", f"{error.strerror}: {error.filename}"),)
    _remove_plan(spool / _PLAN_FOLDER)
    for folder_to_remove in (spool / WINDOWS, spool):
        with suppress(OSError):
            folder_to_remove.rmdir()
    return ()


def _remove_plan(plan: Path) -> None:
    """Remove what ranks agreed upon, links to nothing, and the window that was asked for last."""
    with suppress(OSError):
        for link in plan.iterdir():
            link.unlink()
        plan.rmdir()


def _windows(spool: Path) -> list[Path]:
    """Return the windows that were saved completely."""
    is_spool = spool.name.startswith(_SPOOL_PREFIX)
    return _files(spool / WINDOWS, "rank*.json") if is_spool else []


def _copy_log(log: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        write_atomically(target) as unfinished,
        log.open("rb") as source,
        unfinished.open("wb") as copied_log,
    ):
        copyfileobj(source, copied_log)


def _pack_window(window: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        write_atomically(target) as unfinished,
        window.open("rb") as source,
        gzip.open(unfinished, "wb", compresslevel=1) as packed,
    ):
        copyfileobj(source, packed)
