"""Run a row of the matrix, as it is and, beside it, under gapless."""

import hashlib
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.matrix.acts import ACTS, ON_A_TERMINAL, Running
from tests.matrix.comparing import Outcome, Seen, recorded_in
from tests.matrix.launchers import Place, launcher
from tests.matrix.rows import Row

GAPLESS = (sys.executable, "-m", "gapless", "run")
_TRAINING = Path(__file__).with_name("place")
_LOOPS = Path(__file__).parents[1] / "payload" / "loop_shapes.py"
_FLEETING = re.compile(r"[a-z0-9_]{8}$")  # the end of names of temporary files
_LONGEST = 400  # bytes of a file that are compared as they are
_LEFT_S = 60.0  # in which all processes of a row must have ended: a worker looks each 5 s


@dataclass(frozen=True)
class Around:
    """The folder of one run of a row, and what lies beside it."""

    place: Place

    def beside(self, name: str) -> Path:
        """Give a path that is not among the training's."""
        if name == "tmp":  # multiprocessing binds sockets in it, whose paths must be short
            short = hashlib.sha256(str(self.place.folder).encode()).hexdigest()[:12]
            return Path(tempfile.gettempdir()) / f"row-{short}"
        return self.place.folder.with_name(f"{self.place.folder.name}.{name}")

    @property
    def variables(self) -> dict[str, str]:
        """What the environment holds, however this test was started."""
        kept = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH")
        return {name: os.environ[name] for name in kept if name in os.environ} | {
            "TMPDIR": str(self.beside("tmp")),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "TERM": "dumb",
        }

    def blurred(self, text: bytes, varies: Sequence[str]) -> bytes:
        """Give what was printed without what differs anyway."""
        for path in (self.beside("tmp"), self.place.folder):
            text = text.replace(str(path).encode(), b"@")
        for expression in varies:
            text = re.sub(expression.encode(), b"~", text)
        return text


def both(
    row: Row, folder: Path, shared: Path, under: Sequence[str] = GAPLESS
) -> tuple[Outcome, Outcome, Seen]:
    """Run a row as it is and, at the same time, under gapless."""
    plain, recorded = (Around(Place(folder / name, shared)) for name in ("plain", "under"))
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(run, row, plain, ())
        second = pool.submit(run, row, recorded, under)
        outcomes = first.result(), second.result()
    seen = recorded_in(recorded.place.folder / ".gapless", recorded.beside("tmp"))
    for around in (plain, recorded):
        shutil.rmtree(around.beside("tmp"), ignore_errors=True)
    return *outcomes, seen


def run(row: Row, around: Around, under: Sequence[str]) -> Outcome:
    """Run a row in a new folder, under what stands before it; wait until nothing of it is left."""
    folder = around.place.folder
    shutil.copytree(_TRAINING, folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(_LOOPS, folder)
    shutil.rmtree(around.beside("tmp"), ignore_errors=True)
    around.beside("tmp").mkdir()
    for rank in (0, 1) if row.act else ():
        os.mkfifo(folder / f"gate{rank}")
    command, more = launcher(row.launcher, around.place, [row.loops, row.fate])
    if under:
        command = [*under, *row.options, *command]
    code, shown = _watch(row, around, command, around.variables | more)
    left = _left(around)
    out = shown if shown is not None else around.beside("out").read_bytes()
    err = b"" if shown is not None else around.beside("err").read_bytes()
    return Outcome(
        code,
        around.blurred(out, row.varies),
        around.blurred(err, row.varies),
        _files(around, row.varies),
        _temporary(around, row),
        left,
    )


def _watch(
    row: Row, around: Around, command: Sequence[str], variables: Mapping[str, str]
) -> tuple[int, bytes | None]:
    """Start a command, do to it what is to be done, and wait for its end."""
    if row.act not in ON_A_TERMINAL:
        with around.beside("out").open("wb") as out, around.beside("err").open("wb") as err:
            process = subprocess.Popen(
                command,
                cwd=around.place.folder,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                process_group=0,
            )
        return _meanwhile(row, around, process, None)
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", *command],  # noqa: S607 - where it lies differs
        cwd=around.place.folder,
        env=variables,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    try:
        return _meanwhile(row, around, process, screen)
    finally:
        os.close(screen)


def _meanwhile(
    row: Row, around: Around, process: subprocess.Popen[bytes], screen: int | None
) -> tuple[int, bytes | None]:
    under = (around.place.folder / ".gapless").exists
    running = Running(process.pid, around.place.folder, under, screen)
    try:
        if row.act:
            ACTS[row.act](running)
        running.until(lambda: process.poll() is not None)
    finally:
        process.kill()
        process.wait()
    if screen is None:
        return process.returncode, None
    running.look()
    return process.returncode, running.shown


def _left(around: Around) -> tuple[str, ...]:
    """Give the names of processes of a row that do not end."""
    mark = f"TMPDIR={around.beside('tmp')}\0".encode()
    end = time.monotonic() + _LEFT_S
    while (found := _with(mark)) and time.monotonic() < end:
        time.sleep(0.05)
    return tuple(sorted(found.values()))


def _with(mark: bytes) -> dict[int, str]:
    """Give the processes in whose environment there is something."""
    found: dict[int, str] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (path / "environ").read_bytes():
                found[int(path.name)] = (path / "comm").read_text().strip()
        except OSError:
            continue
    return found


def _files(around: Around, varies: Sequence[str]) -> dict[str, str]:
    """Give what each file of the training's holds; ours are elsewhere."""
    folder = around.place.folder
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.startswith((".gapless", "ready", "gate")) or not path.is_file():
            continue
        held = around.blurred(path.read_bytes(), varies)
        short = len(held) < _LONGEST and held.isascii()
        found[name] = held.decode() if short else hashlib.sha256(held).hexdigest()
    return found


def _temporary(around: Around, row: Row) -> tuple[str, ...]:
    """Give what was left among temporary files; ours are there only if the launcher was killed."""
    names = (path.name for path in around.beside("tmp").iterdir())
    kept = (name for name in names if row.act != "kill-launcher" or "gapless" not in name)
    return tuple(sorted({_FLEETING.sub("…", name) for name in kept}))
