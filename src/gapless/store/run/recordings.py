"""Recordings: a run folder as a value."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from gapless import wire
from gapless.errors import RunFolderError
from gapless.model.recording import Manifest, Process, Recording, Unobserved, Window
from gapless.store import columns
from gapless.store.logs.framing import FramedLog
from gapless.store.logs.logs import find_damage, open_log, read_processes
from gapless.store.logs.series import read_samples
from gapless.store.run import database, manifest, recovery
from gapless.store.run.liveness import goes_on
from gapless.store.run.manifest import FAILED, FINISHED, KILLED, RUNNING, ManifestDocument

DATABASE: Final = "run.sqlite"
_SAMPLES: Final = "samples"  # how the names of the samplers' logs begin
_WINDOW_SUFFIXES: Final = ("", ".gz", ".zst", columns.SUFFIX)


def is_run(folder: Path) -> bool:
    """Return whether a folder is a run folder."""
    return (folder / wire.MANIFEST).is_file() or any((folder / recovery.LOGS).glob("*.log"))


def load(folder: str | os.PathLike[str]) -> Recording:
    """Read a run folder, also of a running run, or one that was killed with its launcher.

    What a killed run left in its spool is moved into the folder. Raises ``RunFolderError`` for a
    folder that is not a run's, or that a later version of gapless wrote.
    """
    run_folder = Path(folder)
    if not is_run(run_folder):
        raise RunFolderError(
            f"{run_folder} is not a run folder: it has neither {wire.MANIFEST} nor logs; "
            "gapless runs lists those that are"
        )
    document = manifest.read(run_folder)
    is_running = goes_on(document, run_folder)
    unobserved = tuple(_unreadable_parts(run_folder, document))
    if not is_running:
        document, notes = _settle_run(document, run_folder)
        unobserved += notes
    return _read(run_folder, document, is_running=is_running, unobserved=unobserved)


def _unreadable_parts(folder: Path, document: ManifestDocument) -> Iterator[Unobserved]:
    """Yield what of a run cannot be read, apart from single logs."""
    if not document.is_readable:
        yield Unobserved(wire.MANIFEST, "missing, or no JSON")
    try:
        os.scandir(folder / recovery.LOGS).close()
    except FileNotFoundError:
        pass  # nothing was recorded, or the logs lie elsewhere
    except OSError as error:
        yield Unobserved(recovery.LOGS, error.strerror or str(error))


def _settle_run(
    document: ManifestDocument, folder: Path
) -> tuple[ManifestDocument, tuple[Unobserved, ...]]:
    """Bring a run that is over to the state in which its launcher would have left it."""
    settled, spool = document.manifest, document.spool
    has_spool = spool is not None and spool.is_dir()
    notes = recovery.adopt(folder, spool) if spool is not None and has_spool else ()
    if settled.status == RUNNING:
        settled = replace(settled, status=_status(settled.exit_code))
    if document.is_readable and not notes and (has_spool or settled != document.manifest):
        with suppress(OSError):  # a read-only folder is read nevertheless
            manifest.write(folder, settled)
    return replace(document, manifest=settled), notes


def _status(exit_code: int | None) -> str:
    """Return how a command ended that left a training behind; ``None``: its end was not seen."""
    if exit_code is None or exit_code < 0:
        return KILLED
    return FAILED if exit_code else FINISHED


def _read(
    folder: Path,
    document: ManifestDocument,
    *,
    is_running: bool,
    unobserved: tuple[Unobserved, ...],
) -> Recording:
    run_processes: list[Process] = []
    sampler_logs = list[FramedLog]()
    for path in recovery.find_logs(folder, document.spool):
        try:
            log = open_log(path)
        except OSError as error:
            unobserved += (Unobserved(path.name, error.strerror or str(error)),)
            continue
        unobserved += find_damage(path.name, log, has_ended=not is_running)
        if path.name.startswith(_SAMPLES):
            sampler_logs.append(log)
            continue
        log_processes, notes = read_processes(path.name, log)
        run_processes += log_processes
        unobserved += notes
    return Recording(
        path=str(folder),
        manifest=_complete_manifest(document.manifest, run_processes),
        processes=tuple(_with_windows(process, folder) for process in run_processes),
        samples=read_samples(sampler_logs),
        unobserved=unobserved,
    )


def _complete_manifest(lost_manifest: Manifest, processes: Sequence[Process]) -> Manifest:
    """Complete a lost manifest with what the processes recorded."""
    if lost_manifest.command or not processes:
        return lost_manifest
    first_process = min(processes, key=lambda process: process.start)
    return replace(
        lost_manifest,
        command=first_process.argv,
        started=lost_manifest.started or first_process.start,
    )


def _with_windows(process: Process, folder: Path) -> Process:
    if not process.windows:
        return process
    return replace(
        process, windows=tuple(_locate_window(window, folder) for window in process.windows)
    )


def _locate_window(window: Window, folder: Path) -> Window:
    """Return a window with its path in the run folder; ``None`` if it is not there."""
    name = Path(window.path or "").name
    candidates = (f"{recovery.WINDOWS}/{name}{suffix}" for suffix in _WINDOW_SUFFIXES)
    window_path = next(
        (candidate for candidate in candidates if name and (folder / candidate).is_file()), None
    )
    return replace(window, path=window_path)


def finish(folder: str | os.PathLike[str]) -> Recording:
    """Read a run that is over, and derive its ``run.sqlite``; a failure is in ``unobserved``.

    Raises ``RunFolderError`` as ``load`` does.
    """
    recording = load(folder)
    why = database.write_database(recording, Path(folder) / DATABASE)
    if why is None:
        return recording
    return replace(recording, unobserved=(*recording.unobserved, Unobserved(DATABASE, why)))
