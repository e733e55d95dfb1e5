"""The runs of a folder: which there are, how large they are, and how to delete them."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gapless.errors import NotFoundError, RunFolderError
from gapless.model.recording import Manifest
from gapless.store.run import database, manifest
from gapless.store.run.liveness import goes_on
from gapless.store.run.manifest import KILLED, RUNNING
from gapless.store.run.recordings import DATABASE, is_run

HOME: Final = Path(".gapless") / "runs"
LAST_RUN: Final = "last"
_DELETED_PREFIX: Final = ".deleted-"


class Entry(Struct, frozen=True):
    """A run as a list shows it."""

    path: Path
    manifest: Manifest
    bytes: int
    steps: int | None  # None: run.sqlite is not there, or holds no steps
    step_ns: int | None  # the mean from the first step's end to the last's, pauses included


def home(start: Path | None = None) -> Path:
    """Return the folder in which runs are kept: ``.gapless/runs`` of a folder, of this one."""
    return (start or Path.cwd()) / HOME


def list_runs(folder: Path) -> tuple[Entry, ...]:
    """Return the runs of a folder, newest first."""
    return tuple(run_entry(run) for run in _newest_first(folder))


def _newest_first(folder: Path) -> list[Path]:
    try:
        paths = [path for path in folder.iterdir() if not path.name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise NotFoundError(f"{folder}: {error.strerror}") from error
    runs = [path for path in paths if not path.is_symlink() and _is_readable_run(path)]
    return sorted(runs, key=lambda run: (_started_unix_ns(run), run.name), reverse=True)


def _is_readable_run(path: Path) -> bool:
    with suppress(PermissionError):  # that of somebody else; the others are shown
        return is_run(path)
    return False


def _started_unix_ns(run: Path) -> int:
    return manifest.peek(run).manifest.started_unix_ns


def run_entry(run: Path) -> Entry:
    """Return the entry of a run in a list."""
    steps, step_ns = _steps(run / DATABASE)
    return Entry(run, current_manifest(run), _size(run), steps, step_ns)


def current_manifest(run: Path) -> Manifest:
    """Return what is known of a run; whether it is still running is checked now."""
    document = manifest.peek(run)
    if document.manifest.status == RUNNING and not goes_on(document, run):
        return replace(document.manifest, status=KILLED)
    return document.manifest


def _size(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    total = 0
    for folder_path, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # it was removed meanwhile
                total += (Path(folder_path) / name).lstat().st_size
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
_MIN_LOOP_CALLS: Final = 5  # calls that make a loop


def _steps(path: Path) -> tuple[int | None, int | None]:
    """Return how many steps the first rank took, and the mean of their times."""
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
    """Choose the subject with the fewest calls, but enough: one optimizer makes the step."""
    count, ns = next((call for call in calls if call[0] >= _MIN_LOOP_CALLS), calls[-1])
    return count, ns // (count - 1) if count > 1 else None


def find(folder: Path, name: str) -> Path:
    """Return the run with this id, with an id that begins so, ``last``, or in this folder.

    Raises ``NotFoundError`` where there is none, or more than one.
    """
    named_path = Path(name)
    if os.sep in name and is_run(named_path):
        return named_path
    try:
        return find_here(folder, name)
    except NotFoundError:
        if named_path.is_file():
            message = f"{name} is a file, and no run; gapless open reads traces"
            raise NotFoundError(message) from None
        raise


def find_here(folder: Path, name: str) -> Path:
    """Return the run of this id, of an id that begins so, or ``last``. Raises as ``find`` does.

    The folder may also be the one around its runs: ``.gapless``, or that of a project.
    """
    candidates = (folder, folder / HOME.name, folder / HOME)
    runs = next((runs for runs in map(_newest_first, candidates) if runs), ())
    if not runs:
        raise NotFoundError(f"there are no runs in {folder}; gapless run COMMAND makes one")
    if name == LAST_RUN:
        return runs[0]
    matches = [run for run in runs if run.name == name] or list(_runs_beginning(runs, name))
    if len(matches) == 1:
        return matches[0]
    names = ", ".join(run.name for run in (matches or runs)[:3])
    if matches:
        raise NotFoundError(f"{name!r} are {len(matches)} runs: {names} …; give more of the id")
    raise NotFoundError(f"there is no run {name!r} in {folder}; the newest are: {names}")


def find_running(folder: Path) -> Path | None:
    """Return the newest run of a folder that goes on; ``None``: none does."""
    runs = _newest_first(folder)
    return next((run for run in runs if current_manifest(run).status == RUNNING), None)


def _runs_beginning(runs: Sequence[Path], start: str) -> Iterator[Path]:
    return (run for run in runs if start and run.name.startswith(start))


def check_deletable(run: Path, *, force: bool = False) -> None:
    """Raise ``RunFolderError`` for what is not a run folder, or (not ``force``) a running run."""
    if run.is_symlink() or not is_run(run):
        raise RunFolderError(f"{run} is not a run folder; nothing was deleted")
    if not force and current_manifest(run).status == RUNNING:
        raise RunFolderError(f"{run.name} goes on; end it first, or delete it with --force")


def delete(run: Path, *, force: bool = False) -> int:
    """Delete a run folder with everything in it; return the bytes that it took.

    Raises ``RunFolderError`` as ``check_deletable`` does, and if the system refuses.
    """
    check_deletable(run, force=force)
    size = _size(run)
    renamed = run.with_name(f"{_DELETED_PREFIX}{run.name}")
    try:
        run.rename(renamed)  # what is half deleted is no longer a run
        shutil.rmtree(renamed)
    except OSError as error:
        raise RunFolderError(f"{run} cannot be deleted: {error.strerror or error}") from error
    return size
