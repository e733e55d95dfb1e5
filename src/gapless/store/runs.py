"""The runs of a folder: which there are, how large, and away with them."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gapless.errors import NotFoundError, RunFolderError
from gapless.model.recording import Manifest
from gapless.store import database, manifest
from gapless.store.alive import goes_on
from gapless.store.manifest import KILLED, RUNNING
from gapless.store.recordings import DATABASE, is_run

HOME: Final = Path(".gapless") / "runs"
LAST: Final = "last"
_GOING: Final = ".deleted-"


@dataclass(frozen=True)
class Entry:
    """A run as a list shows it."""

    path: Path
    manifest: Manifest
    bytes: int
    steps: int | None  # None: run.sqlite is not there, or holds no steps
    step_ns: int | None  # the mean from the first step's end to the last's, pauses included


def home(start: Path | None = None) -> Path:
    """Give the folder in which runs are kept: ``.gapless/runs`` of a folder, of this one."""
    return (start or Path.cwd()) / HOME


def listed(place: Path) -> tuple[Entry, ...]:
    """Give the runs of a folder, newest first."""
    return tuple(entry(run) for run in _newest_first(place))


def _newest_first(place: Path) -> list[Path]:
    try:
        inside = [path for path in place.iterdir() if not path.name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise NotFoundError(f"{place}: {error.strerror}") from error
    runs = [path for path in inside if not path.is_symlink() and is_run(path)]
    return sorted(runs, key=lambda run: (_started(run), run.name), reverse=True)


def _started(run: Path) -> int:
    return manifest.peek(run).manifest.started_unix_ns


def entry(run: Path) -> Entry:
    """Give what a list shows of a run."""
    steps, step_ns = _steps(run / DATABASE)
    return Entry(run, state(run), _size(run), steps, step_ns)


def state(run: Path) -> Manifest:
    """Give what is known of a run, whether it still goes on looked at now."""
    document = manifest.peek(run)
    if document.manifest.status == RUNNING and not goes_on(document, run):
        return replace(document.manifest, status=KILLED)
    return document.manifest


def _size(folder: Path) -> int:
    """Give the bytes of all files in a folder."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # it went meanwhile
                total += (Path(where) / name).lstat().st_size
    return total


_CALLS: Final = """
    WITH call AS (
        SELECT process, kind, flags, subject, end_ns AS first, end_ns AS last, 1 AS count FROM mark
        UNION ALL
        SELECT process, kind, flags, subject, start_ns, end_ns, count FROM mark_sum)
    SELECT call.process, sum(count), max(last) - min(first)
    FROM call JOIN process ON process.id = call.process
    WHERE call.kind = ? AND process.role = 'training' AND call.flags & 1 = 0
    GROUP BY call.process, call.subject ORDER BY coalesce(process.rank, 0), call.process, 2
"""
_MANY: Final = 5  # calls that make a loop


def _steps(path: Path) -> tuple[int | None, int | None]:
    """Give how many steps the first rank took, and the mean of their times."""
    try:
        connection = database.connect(path)
    except RunFolderError:  # newer: the list shows the rest
        connection = None
    if connection is None:
        return None, None
    with closing(connection):
        for kind in (0, 1):  # steps of optimizers; without any, batches
            calls = connection.execute(_CALLS, (kind,)).fetchall()
            if calls:
                return _anchor(
                    [(count, ns) for process, count, ns in calls if process == calls[0][0]]
                )
    return None, None


def _anchor(calls: Sequence[tuple[int, int]]) -> tuple[int, int | None]:
    """Choose what is called least, but not seldom: of several optimizers one makes the step."""
    count, ns = next((one for one in calls if one[0] >= _MANY), calls[-1])
    return count, ns // (count - 1) if count > 1 else None


def find(place: Path, name: str) -> Path:
    """Give the run of this id, of an id that begins so, ``last``, or in this folder.

    Raises ``NotFoundError`` where there is none, or more than one.
    """
    given = Path(name)
    return given if os.sep in name and is_run(given) else find_here(place, name)


def find_here(place: Path, name: str) -> Path:
    """Give the run of this id, of an id that begins so, or ``last``. Raises as ``find`` does."""
    runs = _newest_first(place)
    if not runs:
        raise NotFoundError(f"there are no runs in {place}; gapless run COMMAND makes one")
    if name == LAST:
        return runs[0]
    found = [run for run in runs if run.name == name] or list(_beginning(runs, name))
    if len(found) == 1:
        return found[0]
    names = ", ".join(run.name for run in (found or runs)[:3])
    if found:
        raise NotFoundError(f"{name!r} are {len(found)} runs: {names} …; give more of the id")
    raise NotFoundError(f"there is no run {name!r} in {place}; the newest are: {names}")


def _beginning(runs: Sequence[Path], start: str) -> Iterator[Path]:
    return (run for run in runs if start and run.name.startswith(start))


def check_deletable(run: Path, *, force: bool = False) -> None:
    """Raise ``RunFolderError`` for what is no run folder, or (not ``force``) a run that goes on."""
    if run.is_symlink() or not is_run(run):
        raise RunFolderError(f"{run} is no run folder; nothing was deleted")
    if not force and state(run).status == RUNNING:
        raise RunFolderError(f"{run.name} goes on; end it first, or delete it with --force")


def delete(run: Path, *, force: bool = False) -> int:
    """Delete a run folder with all that is in it; give the bytes that it took.

    Raises ``RunFolderError`` as ``check_deletable`` does, and if the system refuses.
    """
    check_deletable(run, force=force)
    size = _size(run)
    going = run.with_name(f"{_GOING}{run.name}")
    try:
        run.rename(going)  # what is half deleted is no run any more
        shutil.rmtree(going)
    except OSError as error:
        raise RunFolderError(f"{run} cannot be deleted: {error.strerror or error}") from error
    return size
