"""What runs beside the command: carrying, samplers, the end of a check. All of it may fail."""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gapless.launch import carrying, checking, folder, reasons, remote, sampling
from gapless.launch.order import Order
from gapless.launch.pacing import Patience
from gapless.launch.samplers import Sampler
from gapless.launch.tree import Tree
from gapless.launch.unseen import Journal

if TYPE_CHECKING:
    from gapless.model.recording import Manifest

_SWEEP_S: Final = 0.5
_SLOWEST_S: Final = 10.0
_SHARE: Final = 500  # time between sweeps is at least so many times what one takes of a processor
_STACK: Final = 1 << 20  # a limit on memory is the training's, not ours


@dataclass
class Beside:
    """The threads beside a command, and what they know."""

    order: Order
    spool: Path
    child: int
    started: tuple[int, int]  # CLOCK_MONOTONIC, Unix time
    journal: Journal
    tree: Tree
    sightings: reasons.Sightings = field(default_factory=reasons.Sightings)
    stop: threading.Event = field(default_factory=threading.Event)
    windowed: threading.Event = field(default_factory=threading.Event)
    stopped: bool = False  # the command, by us
    carrier: carrying.Carrier | None = None
    manifest: "Manifest | None" = None
    threads: list[threading.Thread] = field(default_factory=list[threading.Thread])


def start(beside: Beside) -> None:
    """Start the threads."""
    threading.stack_size(_STACK)
    _start(beside, "run folder", lambda: _carry(beside))
    _start(beside, "samplers", lambda: _sample(beside))
    _start(beside, "gpu", lambda: _sample_gpus(beside))
    _start(beside, "hosts", lambda: remote.watch_until(beside.stop, beside.tree, beside.journal))
    if beside.order.first_window is not None:
        _start(beside, "early verdict", lambda: _tell(beside))
    if beside.order.settings.check:
        _start(beside, "check", lambda: _check(beside))


def _start(beside: Beside, name: str, action: Callable[[], None]) -> None:
    def guarded() -> None:
        with beside.journal.guard(name):
            action()

    with beside.journal.guard(name):  # where no more threads are allowed
        thread = threading.Thread(target=guarded, name=f"gapless {name}", daemon=True)
        thread.start()
        beside.threads.append(thread)


def recorded(beside: Beside) -> bool:
    """Tell whether a process of the run has written anything."""
    return any(beside.spool.glob("rank*.log"))


def open_folder(beside: Beside) -> None:
    """Make the run folder in its place or, where that cannot be written, in another."""
    try:
        path = folder.make(beside.order.out)
    except OSError as error:
        beside.journal.note("run folder", f"{error.strerror}: {error.filename or Path()}")
        path = folder.make_elsewhere()
    beside.manifest = folder.manifest(path.name, beside.order.command, beside.started)
    beside.carrier = carrying.Carrier(beside.spool, path, beside.journal)
    with beside.journal.guard("run.json"):
        folder.write(path, beside.manifest, beside.spool)


def _carry(beside: Beside) -> None:
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)  # packing can wait
    open_folder(beside)
    carrier = beside.carrier
    if beside.order.meanwhile is not None:
        with beside.journal.guard("preparing the report"):
            beside.order.meanwhile()  # while the training imports what it needs
    pause, told = _SWEEP_S, beside.order.first_window is None
    while carrier is not None and not beside.stop.wait(pause):
        spent = time.thread_time()
        with beside.journal.guard("carrying"):
            carrier.carry_logs()
        pause = min(_SLOWEST_S, max(_SWEEP_S, (time.thread_time() - spent) * _SHARE))
        with beside.journal.guard("carrying"):
            carrier.carry_windows()
        if not told and any((carrier.folder / "windows").glob("*.gz")):
            told = True
            beside.windowed.set()


def _tell(beside: Beside) -> None:
    """Tell of the first window, in a thread that has not lowered its priority."""
    while not beside.windowed.wait(_SWEEP_S):
        if beside.stop.is_set():
            return
    if beside.order.first_window is not None and beside.carrier is not None:
        beside.order.first_window(beside.carrier.folder, lambda: not beside.stop.is_set())


def _sample(beside: Beside) -> None:
    samplers = sampling.machine(beside.tree)
    samplers["processes"] = lambda: _notice(beside)
    sampling.sample_until(beside.stop, samplers, beside.journal)


def _sample_gpus(beside: Beside) -> None:
    sampling.sample_until(beside.stop, sampling.gpus(beside.tree, beside.journal), beside.journal)


def _notice(beside: Beside) -> Sampler:
    """Give a sampler without values: it looks at what kind of processes there are."""

    def sample(_: int) -> dict[str, float]:
        if not recorded(beside):
            beside.sightings.look(beside.tree)
        return {}

    return sample


def _check(beside: Beside) -> None:
    patience = Patience(beside.order.seconds, beside.order.tell)
    if checking.wait_for_enough(beside.stop, beside.spool, patience):
        beside.stopped = True
        checking.end_tree(beside.spool, lambda: list(beside.tree.members))
