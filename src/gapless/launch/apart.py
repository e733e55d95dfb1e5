"""Run a command apart from us: an arm of a trial, which leaves nothing behind.

It has a session of its own, an empty input, and a file for what it prints. Its records are carried
as those of any run. A keeper (``launch.keeper``) is its parent, and ends every process of it: when
we say so, and when we die, however we die.
"""

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gapless.launch import beside as threads
from gapless.launch import carrying, checking, homecoming, keeper, search_path, tree
from gapless.launch.environment import environment, make_spool
from gapless.launch.order import Order
from gapless.launch.unseen import Journal
from gapless.model.recording import Unseen

_KEEPER: Final = Path(keeper.__file__)
_LOOK_S: Final = 0.1
_OTHERS_S: Final = 20.0  # for the other ranks, once one has left as planned
_MOMENT_S: Final = 0.3  # for processes that clean up when the training is gone
_HELPERS_S: Final = 2.0  # likewise, once they were told to end
_KEEPER_S: Final = 15.0
_KILLED: Final = -int(signal.SIGKILL)


@dataclass(frozen=True)
class Apart:
    """What to run apart, where its output goes, and when to end it."""

    order: Order  # its settings tell when the training leaves by itself
    output: Path  # what it prints
    deadline_s: float
    prefix: tuple[str, ...] = ()  # words before the command: ``launch.sandbox.prefix``
    variables: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    folder: Path | None = None  # working folder; ours
    scratch: tuple[Path, ...] = ()  # folders that are removed should we be killed, as the spool is


@dataclass(frozen=True)
class Ended:
    """How it ended: 0 where its processes left as planned, the number of a signal, negative."""

    code: int
    planned: bool  # every training left at its planned step
    late: bool  # it was ended for the deadline
    folder: Path  # of the run
    unseen: tuple[Unseen, ...]
    started: int  # CLOCK_MONOTONIC, both
    ended: int
    cpu_ns: int | None  # of all its processes


def run(apart: Apart) -> Ended:
    """Run a command apart to its end. Raises ``OSError`` where nothing can be written or started.

    Whatever is raised here, Ctrl-C included: its processes are ended first.
    """
    with _interruptible():
        spool = make_spool()
        try:
            with _kept(apart, spool) as kept:
                beside = _accompany(apart.order, spool, kept)
                try:
                    _wait(kept, apart.deadline_s)
                    _end(kept)
                except BaseException:
                    _end(kept)
                    _leave(beside)
                    raise
        except BaseException:
            with suppress(OSError):
                carrying.remove(spool)
            raise
        end = homecoming.End(kept.code_told(), kept.ended)
        outcome = homecoming.bring_home(beside, end, lambda _: None)
    return Ended(
        code=end.code,
        planned=kept.planned,
        late=kept.late,
        folder=outcome.folder,
        unseen=outcome.unseen,
        started=kept.started[0],
        ended=kept.ended,
        cpu_ns=kept.cpu_ns,
    )


@contextmanager
def _interruptible() -> Generator[None]:
    """Let what ends us interrupt what follows, as Ctrl-C does, where handlers can be set."""
    ours = (signal.SIGTERM, signal.SIGHUP)
    if threading.current_thread() is not threading.main_thread():
        ours = ()
    before = {each: signal.signal(each, signal.default_int_handler) for each in ours}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@dataclass
class _Kept:
    """A command and its keeper, and what is known of them."""

    keeper: "subprocess.Popen[bytes]"
    life: int
    told: int
    spool: Path
    started: tuple[int, int]
    progress: checking.Progress
    pid: int | None = None
    code: int | None = None
    ended: int = 0
    cpu_ns: int | None = None
    planned: bool = False
    late: bool = False
    gone: bool = False  # the keeper
    _rest: bytes = b""

    def listen(self, seconds: float) -> None:
        """Take what the keeper tells within a time."""
        if self.gone:
            time.sleep(seconds)
        elif select.select([self.told], [], [], seconds)[0]:
            heard = os.read(self.told, 1 << 16)
            self.gone = not heard
            *lines, self._rest = (self._rest + heard).split(b"\n")
            for line in lines:
                self._take(json.loads(line))

    def _take(self, told: dict[str, Any]) -> None:
        self.pid = told.get("pid", self.pid)
        self.code = told.get("code", self.code)
        self.ended = told.get("at", self.ended)
        self.cpu_ns = told.get("cpu_ns", self.cpu_ns)

    def close_life(self) -> None:
        """Have the keeper end what is left."""
        life, self.life = self.life, -1
        if life >= 0:
            os.close(life)

    def code_told(self) -> int:
        """Give the exit code; 0 for one that left as planned and was ended by us then."""
        if self.planned and self.code in {None, _KILLED}:
            return 0
        return _KILLED if self.code is None else self.code


@contextmanager
def _kept(apart: Apart, spool: Path) -> Generator[_Kept]:
    """Start the keeper, which starts the command; close what connects us at the end."""
    unset = {name: value for name, value in os.environ.items() if name not in apart.variables}
    more = {name: value for name, value in apart.variables.items() if value is not None}
    ours = environment({**unset, **more}, spool, apart.order.settings)
    command, variables = search_path.kept(apart.order.command, ours, spool, apart.folder or Path())
    python = (sys.executable, "-I", "-S", "-B", str(_KEEPER))
    words = *apart.prefix, *command
    scratch = json.dumps([str(one) for one in (spool, *apart.scratch)])
    ours, theirs = os.pipe(), os.pipe()  # its life, what it tells
    try:
        with apart.output.open("wb") as output:
            started = time.monotonic_ns(), time.time_ns()
            child = subprocess.Popen(  # noqa: S603 - the user's own command
                (*python, *map(str, (ours[0], theirs[1])), scratch, *words),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=variables,
                cwd=apart.folder,
                pass_fds=(ours[0], theirs[1]),
                start_new_session=True,
            )
    except BaseException:
        for file in (ours[1], theirs[0]):
            os.close(file)
        raise
    finally:
        os.close(ours[0])
        os.close(theirs[1])
    progress = checking.Progress(asked="trial")
    kept = _Kept(child, ours[1], theirs[0], spool, started, progress)
    try:
        yield kept
    finally:
        kept.close_life()
        os.close(kept.told)


def _accompany(order: Order, spool: Path, kept: _Kept) -> threads.Beside:
    until = time.monotonic() + _KEEPER_S
    while kept.pid is None and not kept.gone and time.monotonic() < until:
        kept.listen(_LOOK_S)
    number = kept.keeper.pid
    members = tree.Tree(number, spool)  # who loses its parent comes to the keeper
    beside = threads.Beside(order, spool, kept.pid or number, kept.started, Journal(spool), members)
    beside.sightings.pass_over(number)
    threads.start(beside)
    return beside


def _wait(kept: _Kept, deadline_s: float) -> None:
    """Wait for the command's end, the word of its trainings that they leave, or the deadline."""
    until = time.monotonic() + deadline_s
    first: float | None = None  # when the first training had left as planned
    while not kept.gone:
        kept.listen(_LOOK_S)
        kept.progress.look(kept.spool)
        left = kept.progress.left()
        if left and first is None:
            first = time.monotonic()
        kept.planned = left and kept.progress.done()
        if kept.planned or (kept.code is not None and not kept.progress.goes_on()):
            return
        if first is not None and time.monotonic() > first + _OTHERS_S:
            return
        if time.monotonic() > until:
            kept.late = True
            return


def _end(kept: _Kept) -> None:
    """End every process of the command, so that none goes on with what the user wrote behind it.

    First, at once, those that train and what waits for them, parents first; then what cleans up
    when they are gone has a moment; then the keeper ends the rest.
    """
    kept.ended = kept.ended or time.monotonic_ns()
    for number, started in _chain(kept).items():
        checking.send(number, started, signal.SIGKILL)
    _wait_for_helpers(kept, _MOMENT_S)
    for number, started in _below(kept).items():
        checking.send(number, started, signal.SIGTERM)
    _wait_for_helpers(kept, _HELPERS_S)
    kept.close_life()
    until = time.monotonic() + _KEEPER_S
    while not kept.gone and time.monotonic() < until:
        kept.listen(_LOOK_S)
    if not kept.gone:
        kept.keeper.kill()
    kept.keeper.wait()
    for number, started in tree.left(kept.spool).items():  # the keeper was killed
        checking.send(number, started, signal.SIGKILL)


def _wait_for_helpers(kept: _Kept, seconds: float) -> None:
    until = time.monotonic() + seconds
    while _below(kept) and time.monotonic() < until:
        kept.listen(_LOOK_S / 5)


def _chain(kept: _Kept) -> dict[int, int]:
    """Give the trainings, their workers and all above them, parents first: number → start."""
    everybody = _below(kept)
    ours = {*kept.progress.training, *kept.progress.workers, kept.pid}
    above = set[int]()
    for number in ours & everybody.keys():
        at: int | None = number
        while at is not None and at in everybody and at not in above:
            above.add(at)
            status = tree.read(Path("/proc"), at)
            at = None if status is None else status.parent
    return {number: started for number, started in everybody.items() if number in above}


def _below(kept: _Kept) -> dict[int, int]:
    """Give the command's processes that live, parents first: number → when it started."""
    numbers = keeper.below(kept.keeper.pid)
    read = {number: tree.read(Path("/proc"), number) for number in numbers}
    return {
        number: status.started
        for number, status in read.items()
        if status is not None and not status.over
    }


def _leave(beside: threads.Beside) -> None:
    """Let the threads end: nobody asks for the records any more."""
    beside.stop.set()
    for thread in beside.threads:
        with suppress(RuntimeError):
            thread.join(_HELPERS_S)
