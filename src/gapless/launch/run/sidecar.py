"""What runs beside the command: transfer, samplers, the end of a check. All of it may fail."""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from gapless import wire
from gapless.launch.process_tree import Tree
from gapless.launch.run import checking, folder, reasons, spool_transfer
from gapless.launch.run.pacing import Patience
from gapless.launch.run_spec import RunSpec
from gapless.launch.samplers import Sampler, remote, sampling
from gapless.launch.unobserved import Journal

if TYPE_CHECKING:
    from gapless.model.recording import Manifest

_SWEEP_S: Final = 0.5
_MAX_SWEEP_S: Final = 10.0
# time between sweeps is at least so many times what one takes of a processor
_MIN_PAUSE_RATIO: Final = 500
_STACK_BYTES: Final = 1 << 20  # a limit on memory is the training's, not ours


class Sidecar(Struct):
    """The threads beside a command, and what they know."""

    spec: RunSpec
    spool: Path
    child: int
    started: tuple[int, int]  # CLOCK_MONOTONIC, Unix time
    journal: Journal
    tree: Tree
    sightings: reasons.Sightings = field(default_factory=reasons.Sightings)
    stop: threading.Event = field(default_factory=threading.Event)
    window_saved: threading.Event = field(default_factory=threading.Event)
    stopped: bool = False  # the command, by us
    transfer: spool_transfer.SpoolTransfer | None = None
    manifest: "Manifest | None" = None
    threads: list[threading.Thread] = field(default_factory=list[threading.Thread])


def start(sidecar: Sidecar) -> None:
    """Start the threads."""
    threading.stack_size(_STACK_BYTES)
    _start_thread(sidecar, "run folder", lambda: _carry(sidecar))
    _start_thread(sidecar, "samplers", lambda: _sample(sidecar))
    _start_thread(sidecar, "gpu", lambda: _sample_gpus(sidecar))
    _start_thread(
        sidecar, "hosts", lambda: remote.watch_until(sidecar.stop, sidecar.tree, sidecar.journal)
    )
    if sidecar.spec.on_first_window is not None:
        _start_thread(sidecar, "early verdict", lambda: _report_first_window(sidecar))
    if sidecar.spec.settings.check:
        _start_thread(sidecar, "check", lambda: _check(sidecar))


def _start_thread(sidecar: Sidecar, name: str, action: Callable[[], None]) -> None:
    def run_guarded() -> None:
        with sidecar.journal.guard(name):
            action()

    with sidecar.journal.guard(name):  # where no more threads are allowed
        thread = threading.Thread(target=run_guarded, name=f"gapless {name}", daemon=True)
        thread.start()
        sidecar.threads.append(thread)


def has_records(sidecar: Sidecar) -> bool:
    """Return whether a process of the run has written anything."""
    return any(sidecar.spool.glob("rank*.log"))


def open_folder(sidecar: Sidecar) -> None:
    """Make the run folder where it belongs or, if that cannot be written, elsewhere."""
    try:
        path = folder.make(sidecar.spec.out)
    except OSError as error:
        sidecar.journal.note("run folder", f"{error.strerror}: {error.filename or Path()}")
        path = folder.make_elsewhere()
    sidecar.manifest = folder.new_manifest(path.name, sidecar.spec.command, sidecar.started)
    sidecar.transfer = spool_transfer.SpoolTransfer(sidecar.spool, path, sidecar.journal)
    with sidecar.journal.guard(wire.MANIFEST):
        folder.write(path, sidecar.manifest, sidecar.spool)


def _carry(sidecar: Sidecar) -> None:
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)  # packing can wait
    open_folder(sidecar)
    transfer = sidecar.transfer
    # What ends at once trains nothing, and needs no report.
    if sidecar.spec.on_idle is not None and not sidecar.stop.wait(_SWEEP_S):
        with sidecar.journal.guard("preparing the report"):
            sidecar.spec.on_idle()  # while the training imports what it needs
    pause, is_reported = _SWEEP_S, sidecar.spec.on_first_window is None
    while transfer is not None and not sidecar.stop.wait(pause):
        spent = time.thread_time()
        with sidecar.journal.guard("carrying"):
            transfer.carry_logs()
        pause = min(_MAX_SWEEP_S, max(_SWEEP_S, (time.thread_time() - spent) * _MIN_PAUSE_RATIO))
        with sidecar.journal.guard("carrying"):
            transfer.carry_windows()
        if not is_reported and any((transfer.folder / "windows").glob("*.gz")):
            is_reported = True
            sidecar.window_saved.set()


def _report_first_window(sidecar: Sidecar) -> None:
    """Report the first window, in a thread that has not lowered its priority."""
    while not sidecar.window_saved.wait(_SWEEP_S):
        if sidecar.stop.is_set():
            return
    if sidecar.spec.on_first_window is not None and sidecar.transfer is not None:
        sidecar.spec.on_first_window(sidecar.transfer.folder, lambda: not sidecar.stop.is_set())


def _sample(sidecar: Sidecar) -> None:
    factories = sampling.machine_samplers(sidecar.tree)
    factories["processes"] = lambda: _open_process_watch(sidecar)
    sampling.sample_until(sidecar.stop, factories, sidecar.journal)


def _sample_gpus(sidecar: Sidecar) -> None:
    sampling.sample_until(
        sidecar.stop, sampling.gpu_samplers(sidecar.tree, sidecar.journal), sidecar.journal
    )


def _open_process_watch(sidecar: Sidecar) -> Sampler:
    """Return a sampler without values: it looks at what kind of processes there are."""

    def sample(_: int) -> dict[str, float]:
        if not has_records(sidecar):
            sidecar.sightings.look(sidecar.tree)
        return {}

    return sample


def _check(sidecar: Sidecar) -> None:
    patience = Patience(sidecar.spec.seconds, sidecar.spec.report_progress)
    if checking.wait_for_enough(sidecar.stop, sidecar.spool, patience):
        sidecar.stopped = True
        checking.end_tree(sidecar.spool, lambda: list(sidecar.tree.members))
