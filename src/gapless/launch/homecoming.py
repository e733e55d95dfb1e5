"""Bring home what a command recorded, once it has ended."""

import dataclasses
import fcntl
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gapless.launch import beside as threads
from gapless.launch import carrying, checking, exports, folder, reasons, tree, unstepped
from gapless.launch.beside import Beside
from gapless.model.recording import Unseen

Say = Callable[[str], None]
_SAVING_S: Final = 30.0  # for a window that a child of the training is still saving
_STUCK_S: Final = 5.0  # without a byte more
_JOIN_S: Final = 30.0  # for a thread that a sick disk holds
_SICK_S: Final = 2.0  # for one that a sick driver holds
_LINGER_S: Final = 1.0  # for a training that ends a moment after the command
_LOOK_S: Final = 0.05


@dataclass(frozen=True)
class End:
    """How the command ended, and when: its exit code, or the number of a signal, negative."""

    code: int
    at: int  # CLOCK_MONOTONIC
    stopped: bool = False  # by us, as ``check`` is asked to


@dataclass(frozen=True)
class Outcome:
    """What is left of a run."""

    folder: Path
    stopped: bool  # by us, as ``check`` is asked to
    recorded: bool  # whether any process stepped or loaded
    why: str | None  # why none did
    instead: tuple[str, ...]  # what was seen of processes with PyTorch where none did
    goes_on: bool  # a training that the command left in the background
    kept: Path | None  # the spool, if something is still in it
    unseen: tuple[Unseen, ...]


def bring_home(beside: Beside, end: End, say: Say) -> Outcome:
    """Carry what is left, complete ``run.json``, and remove the spool. Raises ``OSError``."""
    end = dataclasses.replace(end, stopped=_end_check(beside))
    held = _join(beside)
    recorded = threads.recorded(beside)
    awaited = not recorded and _may_step_yet(beside.spool)
    quiet = recorded or awaited
    why, instead = (None, ()) if quiet else _why_nothing(beside)
    carrier = _carrier(beside, held)
    _sign(beside, end, carrier.folder, beside.spool)
    _wait_for_windows(beside, say)
    _adopt(beside, carrier.folder, say)
    carrier.again()
    whole = carrier.sweep(last=True)
    if not whole:
        carrier, whole = _elsewhere(beside, carrier)
    goes_on = awaited or _training_goes_on(beside.spool)
    kept = beside.spool if goes_on or not whole else None
    _sign(beside, end, carrier.folder, kept, goes_on=goes_on)
    if kept is None:
        with beside.journal.guard("spool"):
            carrying.remove(beside.spool)
    return Outcome(
        carrier.folder, end.stopped, recorded, why, instead, goes_on, kept, beside.journal.noted()
    )


def _why_nothing(beside: Beside) -> tuple[str, tuple[str, ...]]:
    """Say why nothing was recorded, and what was seen instead; write both down."""
    reports = unstepped.reports(beside.spool)
    beside.sightings.torch = beside.sightings.torch or bool(reports)
    why = reasons.why_nothing(beside.order.command, beside.sightings)
    beside.journal.note("training", why)
    instead = list(unstepped.sentences(reports))
    for name, sentence in instead:
        beside.journal.note(name, sentence)
    return why, tuple(f"{name}: {sentence}" for name, sentence in instead)


def _end_check(beside: Beside) -> bool:
    """End what a checked command left; tell whether it ended as ``check`` wants it."""
    if not beside.order.settings.check:
        return False
    progress = checking.Progress()
    progress.look(beside.spool)
    stopped = beside.stopped or progress.done()
    with beside.journal.guard("check"):
        checking.end_tree(beside.spool, lambda: list(beside.tree.members))
    return stopped


def _join(beside: Beside) -> bool:
    """Wait for the threads; tell whether the one that carries is held by a sick disk."""
    beside.stop.set()
    until = time.monotonic() + _JOIN_S
    carrying_thread = [thread for thread in beside.threads if thread.name == "gapless run folder"]
    for thread in carrying_thread:
        thread.join(max(0.0, until - time.monotonic()))
    for thread in beside.threads:
        thread.join(min(_SICK_S, max(0.0, until - time.monotonic())))
    return any(thread.is_alive() for thread in carrying_thread)


def _carrier(beside: Beside, held: bool) -> carrying.Carrier:  # noqa: FBT001
    if beside.carrier is None and not held:
        threads.open_folder(beside)  # the thread for it could not be started
    if beside.carrier is None or held:
        return carrying.Carrier(beside.spool, folder.make_elsewhere(), beside.journal)
    return beside.carrier


def _sign(
    beside: Beside, end: End, path: Path, spool: Path | None, *, goes_on: bool = False
) -> None:
    """Write how it ended into ``run.json``; a training in the background may still go on."""
    with beside.journal.guard("run.json"):
        begun = beside.manifest or folder.manifest(path.name, beside.order.command, beside.started)
        manifest = dataclasses.replace(
            begun,
            id=path.name,
            ended=end.at,
            exit_code=end.code,
            status="running" if goes_on else _status(end),
            stopped_by="check" if end.stopped else None,
            pid=beside.child,
        )
        folder.write(path, manifest, spool)


def _status(end: End) -> str:
    if end.code < 0:
        return "finished" if end.stopped else "killed"
    return "failed" if end.code else "finished"


def _adopt(beside: Beside, path: Path, say: Say) -> None:
    """Copy the traces that the training's own profiler wrote into the run folder."""
    adopted = exports.adopt(beside.spool, path, beside.journal, say)
    if adopted and beside.manifest is not None:
        beside.manifest = dataclasses.replace(beside.manifest, adopted=adopted)


def _wait_for_windows(beside: Beside, say: Say) -> None:
    """Wait for a window that is being saved, as long as it grows."""
    until = time.monotonic() + _SAVING_S
    last, grew = 0, time.monotonic()
    while (size := carrying.saving(beside.spool)) and time.monotonic() < until:
        if size != last:
            last, grew = size, time.monotonic()
            say("saving a window")
        if time.monotonic() - grew > _STUCK_S or not tree.left(beside.spool):
            return
        time.sleep(_LOOK_S)


def _elsewhere(beside: Beside, first: carrying.Carrier) -> tuple[carrying.Carrier, bool]:
    """Carry all into another folder, what the first one holds of windows, too."""
    other = carrying.Carrier(beside.spool, folder.make_elsewhere(), beside.journal)
    with suppress(OSError):
        shutil.copytree(first.folder / "windows", other.folder / "windows", dirs_exist_ok=True)
    return other, other.sweep(last=True)


def _training_goes_on(spool: Path) -> bool:
    """Tell whether a training holds its log, a moment after the command: a script's background."""
    until = time.monotonic() + _LINGER_S
    logs = [log for log in spool.glob("rank*.log") if "-worker" not in log.name]
    while any(_is_held(log) for log in logs):
        if time.monotonic() > until:
            return True
        time.sleep(_LOOK_S)
    return False


def _may_step_yet(spool: Path) -> bool:
    """Tell whether a Python of the command lives on, which may be a training that still begins."""
    until = time.monotonic() + _LINGER_S
    while any(map(reasons.runs_python, tree.left(spool))):
        if time.monotonic() > until:
            return True
        time.sleep(_LOOK_S)
    return False


def _is_held(log: Path) -> bool:
    """Tell whether a process lives that writes a log: it locks it."""
    with suppress(FileNotFoundError), log.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
