"""Recordings: a run folder as a value."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from gapless.errors import RunFolderError
from gapless.model.recording import Manifest, Process, Recording, Unseen, Window
from gapless.store import adopting, database, manifest
from gapless.store.alive import goes_on
from gapless.store.framing import Framed
from gapless.store.logs import damage, open_log, processes
from gapless.store.manifest import FAILED, FINISHED, KILLED, RUNNING, Document
from gapless.store.series import samples

DATABASE: Final = "run.sqlite"
_SAMPLES: Final = "samples"  # how the names of the samplers' logs begin
_KEPT_AS: Final = ("", ".gz", ".zst")


def is_run(folder: Path) -> bool:
    """Say whether a folder is that of a run."""
    return (folder / manifest.NAME).is_file() or any((folder / adopting.LOGS).glob("*.log"))


def load(folder: str | os.PathLike[str]) -> Recording:
    """Read a run folder, also of a run that goes on, or that was killed with its launcher.

    What a killed run left in its spool is brought into the folder. Raises ``RunFolderError`` for a
    folder that is no run's, or that a later version of gapless wrote.
    """
    place = Path(folder)
    if not is_run(place):
        raise RunFolderError(
            f"{place} is no run folder: it has neither {manifest.NAME} nor logs; "
            "gapless runs lists those that are"
        )
    document = manifest.read(place)
    running = goes_on(document, place)
    unseen = () if document.found else (Unseen(manifest.NAME, "missing, or no JSON"),)
    if not running:
        document, notes = _settled(document, place)
        unseen += notes
    return _read(place, document, running=running, unseen=unseen)


def _settled(document: Document, folder: Path) -> tuple[Document, tuple[Unseen, ...]]:
    """Bring a run that is over to the state in which its launcher would have left it."""
    found, spool = document.manifest, document.spool
    left = spool is not None and spool.is_dir()
    notes = adopting.adopt(folder, spool) if spool is not None and left else ()
    if found.status == RUNNING:
        found = replace(found, status=_status(found.exit_code))
    if document.found and not notes and (left or found != document.manifest):
        with suppress(OSError):  # a folder that may only be read is read all the same
            manifest.write(folder, found)
    return replace(document, manifest=found), notes


def _status(exit_code: int | None) -> str:
    """Give how a command ended that left a training behind; ``None``: nobody saw it end."""
    if exit_code is None or exit_code < 0:
        return KILLED
    return FAILED if exit_code else FINISHED


def _read(
    folder: Path, document: Document, *, running: bool, unseen: tuple[Unseen, ...]
) -> Recording:
    found: list[Process] = []
    sampled = list[Framed]()
    for path in adopting.logs(folder, document.spool):
        try:
            log = open_log(path)
        except OSError as error:
            unseen += (Unseen(path.name, error.strerror or str(error)),)
            continue
        unseen += damage(path.name, log, ended=not running)
        if path.name.startswith(_SAMPLES):
            sampled.append(log)
            continue
        some, notes = processes(path.name, log)
        found += some
        unseen += notes
    return Recording(
        path=str(folder),
        manifest=_completed(document.manifest, found),
        processes=tuple(_with_windows(process, folder) for process in found),
        samples=samples(sampled),
        unseen=unseen,
    )


def _completed(found: Manifest, processes: Sequence[Process]) -> Manifest:
    """Give a manifest that was lost what the processes tell."""
    if found.command or not processes:
        return found
    first = min(processes, key=lambda process: process.start)
    return replace(found, command=first.argv, started=found.started or first.start)


def _with_windows(process: Process, folder: Path) -> Process:
    if not process.windows:
        return process
    return replace(process, windows=tuple(_kept(window, folder) for window in process.windows))


def _kept(window: Window, folder: Path) -> Window:
    """Give a window the path under which the run folder has it; ``None`` if it has not."""
    name = Path(window.path or "").name
    places = (f"{adopting.WINDOWS}/{name}{suffix}" for suffix in _KEPT_AS)
    kept = next((place for place in places if name and (folder / place).is_file()), None)
    return replace(window, path=kept)


def finish(folder: str | os.PathLike[str]) -> Recording:
    """Read a run that is over, and derive its ``run.sqlite``; why that failed is in ``unseen``.

    Raises ``RunFolderError`` as ``load`` does.
    """
    recording = load(folder)
    why = database.derive(recording, Path(folder) / DATABASE)
    if why is None:
        return recording
    return replace(recording, unseen=(*recording.unseen, Unseen(DATABASE, why)))
