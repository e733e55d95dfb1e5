"""Collect what a command recorded, once it has ended, in the run folder."""

import fcntl
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from gapless import wire
from gapless.launch import process_tree
from gapless.launch.run import checking, exports, folder, reasons, spool_transfer, unstepped
from gapless.launch.run.sidecar import Sidecar, has_records, open_folder
from gapless.model.recording import Unobserved

Progress = Callable[[str], None]
_SAVING_S: Final = 30.0  # for a window that a child of the training is still saving
_STUCK_S: Final = 5.0  # without a byte more
_JOIN_S: Final = 30.0  # for a thread that a sick disk holds
_SICK_S: Final = 2.0  # for one that a sick driver holds
_LINGER_S: Final = 1.0  # for a training that ends a moment after the command
_LOOK_S: Final = 0.05
_NO_FAILURES: Final = (0, -signal.SIGINT, -signal.SIGTERM)


class CommandEnd(Struct, frozen=True):
    """How the command ended, and when: its exit code, or the number of a signal, negative."""

    code: int
    ended_ns: int  # CLOCK_MONOTONIC
    stopped: bool = False  # by us, as ``gapless check`` is asked to

    @property
    def has_failed(self) -> bool:
        """Return whether it failed or crashed: not if someone ended it."""
        return not self.stopped and self.code not in _NO_FAILURES


class RunOutcome(Struct, frozen=True):
    """What is left of a run."""

    folder: Path
    stopped: bool  # by us, as ``gapless check`` is asked to
    recorded: bool  # whether any process stepped or loaded
    why: str | None  # why none did
    torch_processes: tuple[str, ...]  # what was seen of processes with PyTorch where none did
    goes_on: bool  # a training that the command left in the background
    leftover_spool: Path | None  # the spool, if something is still in it
    unobserved: tuple[Unobserved, ...]


def finalize_run(sidecar: Sidecar, end: CommandEnd, report_progress: Progress) -> RunOutcome:
    """Transfer what is left, complete ``run.json``, and remove the spool. Raises ``OSError``."""
    end = structs.replace(end, stopped=_end_check(sidecar))
    is_held = _join_threads(sidecar)
    recorded = has_records(sidecar)
    may_step = not recorded and _may_step_yet(sidecar.spool)
    quiet = recorded or may_step
    why, torch_processes = (None, ()) if quiet else _explain_nothing(sidecar, end)
    transfer = _choose_transfer(sidecar, is_held)
    _write_manifest(sidecar, end, transfer.folder, sidecar.spool)
    _wait_for_windows(sidecar, report_progress)
    _adopt_traces(sidecar, transfer.folder, report_progress)
    transfer.forget_sizes()
    is_complete = transfer.sweep(is_last=True)
    if not is_complete:
        transfer, is_complete = _transfer_elsewhere(sidecar, transfer)
    goes_on = may_step or _training_goes_on(sidecar.spool)
    leftover_spool = sidecar.spool if goes_on or not is_complete else None
    _write_manifest(sidecar, end, transfer.folder, leftover_spool, goes_on=goes_on)
    if leftover_spool is None:
        with sidecar.journal.guard("spool"):
            spool_transfer.remove(sidecar.spool)
    return RunOutcome(
        transfer.folder,
        end.stopped,
        recorded,
        why,
        torch_processes,
        goes_on,
        leftover_spool,
        sidecar.journal.list_unobserved(),
    )


def _explain_nothing(sidecar: Sidecar, end: CommandEnd) -> tuple[str, tuple[str, ...]]:
    """Find out why nothing was recorded, and what was seen instead; write both down."""
    reports = unstepped.read_reports(sidecar.spool)
    sidecar.sightings.torch = sidecar.sightings.torch or bool(reports)
    why = reasons.explain_nothing(
        sidecar.spec.command, sidecar.sightings, has_failed=end.has_failed
    )
    sidecar.journal.note("training", why)
    torch_processes = list(unstepped.describe_reports(reports))
    for name, sentence in torch_processes:
        sidecar.journal.note(name, sentence)
    return why, tuple(f"{name}: {sentence}" for name, sentence in torch_processes)


def _end_check(sidecar: Sidecar) -> bool:
    """End what a checked command left; return whether it ended as ``gapless check`` wants it."""
    if not sidecar.spec.settings.check:
        return False
    progress = checking.CheckProgress()
    progress.look(sidecar.spool)
    stopped = sidecar.stopped or progress.is_done()
    with sidecar.journal.guard("check"):
        checking.end_tree(sidecar.spool, lambda: list(sidecar.tree.members))
    return stopped


def _join_threads(sidecar: Sidecar) -> bool:
    """Wait for the threads; return whether the one that transfers is held by a sick disk."""
    sidecar.stop.set()
    until = time.monotonic() + _JOIN_S
    transfer_threads = [thread for thread in sidecar.threads if thread.name == "gapless run folder"]
    for thread in transfer_threads:
        thread.join(max(0.0, until - time.monotonic()))
    for thread in sidecar.threads:
        thread.join(min(_SICK_S, max(0.0, until - time.monotonic())))
    return any(thread.is_alive() for thread in transfer_threads)


def _choose_transfer(sidecar: Sidecar, is_held: bool) -> spool_transfer.SpoolTransfer:  # noqa: FBT001
    if sidecar.transfer is None and not is_held:
        open_folder(sidecar)  # the thread for it could not be started
    if sidecar.transfer is None or is_held:
        return spool_transfer.SpoolTransfer(sidecar.spool, folder.make_elsewhere(), sidecar.journal)
    return sidecar.transfer


def _write_manifest(
    sidecar: Sidecar, end: CommandEnd, path: Path, spool: Path | None, *, goes_on: bool = False
) -> None:
    """Write how it ended into ``run.json``; a training in the background may still go on."""
    with sidecar.journal.guard(wire.MANIFEST):
        initial_manifest = sidecar.manifest or folder.new_manifest(
            path.name, sidecar.spec.command, sidecar.started
        )
        manifest = structs.replace(
            initial_manifest,
            id=path.name,
            ended=end.ended_ns,
            exit_code=end.code,
            status="running" if goes_on else _status(end),
            stopped_by="check" if end.stopped else None,
            pid=sidecar.child,
        )
        folder.write(path, manifest, spool)


def _status(end: CommandEnd) -> str:
    if end.code < 0:
        return "finished" if end.stopped else "killed"
    return "failed" if end.code else "finished"


def _adopt_traces(sidecar: Sidecar, path: Path, report_progress: Progress) -> None:
    """Copy the traces that the training's own profiler wrote into the run folder."""
    adopted = exports.adopt(sidecar.spool, path, sidecar.journal, report_progress)
    if adopted and sidecar.manifest is not None:
        sidecar.manifest = structs.replace(sidecar.manifest, adopted=adopted)


def _wait_for_windows(sidecar: Sidecar, report_progress: Progress) -> None:
    """Wait for a window that is being saved, as long as it grows."""
    until = time.monotonic() + _SAVING_S
    last_size, grew_s = 0, time.monotonic()
    while (size := spool_transfer.count_unsaved_bytes(sidecar.spool)) and time.monotonic() < until:
        if size != last_size:
            last_size, grew_s = size, time.monotonic()
            report_progress("saving a window")
        if time.monotonic() - grew_s > _STUCK_S or not process_tree.find_by_spool(sidecar.spool):
            return
        time.sleep(_LOOK_S)


def _transfer_elsewhere(
    sidecar: Sidecar, first_transfer: spool_transfer.SpoolTransfer
) -> tuple[spool_transfer.SpoolTransfer, bool]:
    """Transfer all into another folder, the windows that the first one holds, too."""
    other_transfer = spool_transfer.SpoolTransfer(
        sidecar.spool, folder.make_elsewhere(), sidecar.journal
    )
    with suppress(OSError):
        shutil.copytree(
            first_transfer.folder / "windows", other_transfer.folder / "windows", dirs_exist_ok=True
        )
    return other_transfer, other_transfer.sweep(is_last=True)


def _training_goes_on(spool: Path) -> bool:
    """Return whether a training still holds its log: a script left it in the background."""
    until = time.monotonic() + _LINGER_S
    logs = [log for log in spool.glob("rank*.log") if "-worker" not in log.name]
    while any(_is_held(log) for log in logs):
        if time.monotonic() > until:
            return True
        time.sleep(_LOOK_S)
    return False


def _may_step_yet(spool: Path) -> bool:
    """Return whether a Python of the command lives on: a training that may still begin."""
    until = time.monotonic() + _LINGER_S
    while any(map(reasons.runs_python, process_tree.find_by_spool(spool))):
        if time.monotonic() > until:
            return True
        time.sleep(_LOOK_S)
    return False


def _is_held(log: Path) -> bool:
    """Return whether a process lives that writes a log: it locks it."""
    with suppress(FileNotFoundError), log.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
