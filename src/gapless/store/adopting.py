"""What a run left in its spool because nobody carried it on: its launcher was killed.

A log in the run folder is always the beginning of the one in the spool. Only what is a log or a
saved window is taken, and only that is removed: ``run.json`` may name any folder.
"""

import gzip
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from shutil import copyfileobj
from typing import Final

from gapless.model.recording import Unseen
from gapless.store.framing import is_log
from gapless.store.whole import whole

LOGS: Final = "logs"
WINDOWS: Final = "windows"
_PLAN: Final = "plan"  # of ranks: what they agreed upon
_SPOOL: Final = "gapless-"  # how the name of every spool begins


def logs(folder: Path, spool: Path | None) -> list[Path]:
    """Give each log of a run where most of it is: in its folder or in its spool."""
    found: dict[str, Path] = {}
    for log in (*_files(folder, "*.log"), *_files(folder / LOGS, "*.log"), *_left(spool)):
        other = found.get(log.name)
        if other is None or _size(log) > _size(other):
            found[log.name] = log
    return [found[name] for name in sorted(found)]


def _left(spool: Path | None) -> Iterator[Path]:
    if spool is not None and spool.name.startswith(_SPOOL):
        yield from (log for log in _files(spool, "*.log") if is_log(log))


def _files(folder: Path, pattern: str) -> list[Path]:
    """Give the files of a folder, none if it is not there; a link is none."""
    with suppress(OSError):
        return [path for path in folder.glob(pattern) if path.is_file() and not path.is_symlink()]
    return []


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def adopt(folder: Path, spool: Path) -> tuple[Unseen, ...]:
    """Bring what is left in a spool into the run folder; say what could not be brought."""
    try:
        for log in logs(folder, spool):
            if log.parent == spool:
                _bring(log, folder / LOGS / log.name)
        for log in _left(spool):
            log.unlink()
        for window in _windows(spool):
            _pack(window, folder / WINDOWS / f"{window.name}.gz")
            window.unlink()
    except OSError as error:
        return (Unseen(f"what is left in {spool}", f"{error.strerror}: {error.filename}"),)
    _forget(spool / _PLAN)
    for empty in (spool / WINDOWS, spool):
        with suppress(OSError):
            empty.rmdir()
    return ()


def _forget(plan: Path) -> None:
    """Remove what ranks agreed upon: links to nothing."""
    with suppress(OSError):
        for link in plan.iterdir():
            link.unlink()
        plan.rmdir()


def _windows(spool: Path) -> list[Path]:
    """Give the windows that were saved whole."""
    ours = spool.name.startswith(_SPOOL)
    return _files(spool / WINDOWS, "rank*.json") if ours else []


def _bring(log: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole(target) as unfinished, log.open("rb") as source, unfinished.open("wb") as copy:
        copyfileobj(source, copy)


def _pack(window: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        whole(target) as unfinished,
        window.open("rb") as source,
        gzip.open(unfinished, "wb", compresslevel=1) as packed,
    ):
        copyfileobj(source, packed)
