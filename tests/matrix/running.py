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

from tests.matrix.acts import ACTS, ON_A_TERMINAL, RunningCommand
from tests.matrix.comparing import RecordedCounts, RowOutcome, read_counts
from tests.matrix.launchers import RowFolders, launch_command
from tests.matrix.rows import Row

GAPLESS = (sys.executable, "-m", "gapless", "run")
_TRAINING = Path(__file__).with_name("place")
_LOOPS = Path(__file__).parents[1] / "payload" / "loop_shapes.py"
_TEMPORARY_NAME = re.compile(r"[a-z0-9_]{8}$")  # the end of names of temporary files
_MAX_BYTES = 400  # bytes of a file that are compared as they are
_LEFT_S = 60.0  # in which all processes of a row must have ended: a worker looks each 5 s


@dataclass(frozen=True)
class RunFolders:
    """The folder of one run of a row, and what lies beside it."""

    base: RowFolders

    def path_beside(self, name: str) -> Path:
        """Return a path that is not among the training's."""
        if name == "tmp":  # multiprocessing binds sockets in it, whose paths must be short
            digest = hashlib.sha256(str(self.base.folder).encode()).hexdigest()[:12]
            return Path(tempfile.gettempdir()) / f"row-{digest}"
        return self.base.folder.with_name(f"{self.base.folder.name}.{name}")

    @property
    def variables(self) -> dict[str, str]:
        """What the environment holds, however this test was started."""
        inherited = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH")
        return {name: os.environ[name] for name in inherited if name in os.environ} | {
            "TMPDIR": str(self.path_beside("tmp")),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "TERM": "dumb",
        }

    def blur(self, text: bytes, varies: Sequence[str]) -> bytes:
        """Return what was printed without what differs anyway."""
        for path in (self.path_beside("tmp"), self.base.folder):
            text = text.replace(str(path).encode(), b"@")
        for expression in varies:
            text = re.sub(expression.encode(), b"~", text)
        return text


def run_both(
    row: Row, folder: Path, shared: Path, under: Sequence[str] = GAPLESS
) -> tuple[RowOutcome, RowOutcome, RecordedCounts]:
    """Run a row as it is and, at the same time, under gapless."""
    plain, recorded = (RunFolders(RowFolders(folder / name, shared)) for name in ("plain", "under"))
    with ThreadPoolExecutor(2) as pool:
        plain_future = pool.submit(run, row, plain, ())
        recorded_future = pool.submit(run, row, recorded, under)
        outcomes = plain_future.result(), recorded_future.result()
    counts = read_counts(recorded.base.folder / ".gapless", recorded.path_beside("tmp"))
    for paths in (plain, recorded):
        shutil.rmtree(paths.path_beside("tmp"), ignore_errors=True)
    return *outcomes, counts


def run(row: Row, paths: RunFolders, under: Sequence[str]) -> RowOutcome:
    """Run a row in a new folder, under what stands before it; wait until nothing of it is left."""
    folder = paths.base.folder
    shutil.copytree(_TRAINING, folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(_LOOPS, folder)
    shutil.rmtree(paths.path_beside("tmp"), ignore_errors=True)
    paths.path_beside("tmp").mkdir()
    for rank in (0, 1) if row.act else ():
        os.mkfifo(folder / f"gate{rank}")
    command, extra_variables = launch_command(row.launcher, paths.base, [row.loops, row.fate])
    if under:
        command = [*under, *row.options, *command]
    code, screen_output = _run_command(row, paths, command, paths.variables | extra_variables)
    surviving = _surviving_names(paths)
    out = screen_output if screen_output is not None else paths.path_beside("out").read_bytes()
    err = b"" if screen_output is not None else paths.path_beside("err").read_bytes()
    return RowOutcome(
        code,
        paths.blur(out, row.varies),
        paths.blur(err, row.varies),
        _file_contents(paths, row.varies),
        _temporary_names(paths, row),
        surviving,
    )


def _run_command(
    row: Row, paths: RunFolders, command: Sequence[str], variables: Mapping[str, str]
) -> tuple[int, bytes | None]:
    """Start a command, do to it what is to be done, and wait for its end."""
    if row.act not in ON_A_TERMINAL:
        with paths.path_beside("out").open("wb") as out, paths.path_beside("err").open("wb") as err:
            process = subprocess.Popen(
                command,
                cwd=paths.base.folder,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                process_group=0,
            )
        return _act_and_wait(row, paths, process, None)
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", *command],  # noqa: S607 - where it lies differs
        cwd=paths.base.folder,
        env=variables,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    try:
        return _act_and_wait(row, paths, process, screen)
    finally:
        os.close(screen)


def _act_and_wait(
    row: Row, paths: RunFolders, process: subprocess.Popen[bytes], screen: int | None
) -> tuple[int, bytes | None]:
    under = (paths.base.folder / ".gapless").exists
    running = RunningCommand(process.pid, paths.base.folder, under, screen)
    try:
        if row.act:
            ACTS[row.act](running)
        running.wait_until(lambda: process.poll() is not None)
    finally:
        process.kill()
        process.wait()
    if screen is None:
        return process.returncode, None
    running.read_screen()
    return process.returncode, running.output


def _surviving_names(paths: RunFolders) -> tuple[str, ...]:
    """Return the names of processes of a row that do not end."""
    mark = f"TMPDIR={paths.path_beside('tmp')}\0".encode()
    end = time.monotonic() + _LEFT_S
    while (processes := _processes_with(mark)) and time.monotonic() < end:
        time.sleep(0.05)
    return tuple(sorted(processes.values()))


def _processes_with(mark: bytes) -> dict[int, str]:
    """Return the processes in whose environment there is something."""
    names_by_pid: dict[int, str] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (path / "environ").read_bytes():
                names_by_pid[int(path.name)] = (path / "comm").read_text().strip()
        except OSError:
            continue
    return names_by_pid


def _file_contents(paths: RunFolders, varies: Sequence[str]) -> dict[str, str]:
    """Return what each file of the training's holds; ours are elsewhere."""
    folder = paths.base.folder
    contents: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.startswith((".gapless", "ready", "gate")) or not path.is_file():
            continue
        content = paths.blur(path.read_bytes(), varies)
        is_short = len(content) < _MAX_BYTES and content.isascii()
        contents[name] = content.decode() if is_short else hashlib.sha256(content).hexdigest()
    return contents


def _temporary_names(paths: RunFolders, row: Row) -> tuple[str, ...]:
    """Return what was left among temporary files; ours only if the launcher was killed."""
    names = (path.name for path in paths.path_beside("tmp").iterdir())
    relevant = (name for name in names if row.act != "kill-launcher" or "gapless" not in name)
    return tuple(sorted({_TEMPORARY_NAME.sub("…", name) for name in relevant}))
