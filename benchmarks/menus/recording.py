"""Record a case as any training is recorded, and keep it as one small file."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from isal import igzip

from benchmarks.menus.sources import ZOO, command_of
from benchmarks.pack_records import pack_windows
from gapless import wire
from gapless.store.logs.logs import open_log
from gapless.store.run.pack import pack
from tests.zoo.cases import Case
from tests.zoo.neighbour import STARTED_VARIABLE, neighbour

ROOT: Final = Path(__file__).resolve().parents[2]
MAX_BYTES: Final = 500_000  # bytes of a record
PATIENCE_S: Final = 180
_SETUP: Final = "setup"  # of stacks: sampled before the process stepped


class RecordingError(Exception):
    """The training of a case could not be recorded."""


def command(case: Case, device: str, seconds: float, source: str = ZOO) -> list[str]:
    """Return the command line that trains a case."""
    ranks = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(case.ranks)]
    start = ranks if case.ranks > 1 else []
    return [sys.executable, *start, *command_of(source, case, device, seconds)]


def record(  # noqa: PLR0913 - what is recorded, and how
    case: Case,
    device: str,
    seconds: float,
    out: Path,
    source: str = ZOO,
    *,
    recorder_options: Sequence[str] = (),
) -> Path:
    """Record a training of a case; give its run folder. Raises ``RecordingError``."""
    recorder = [sys.executable, "-m", "gapless", "run", "--quiet", "--out", str(out)]
    recorder += [*recorder_options, "--"]
    has_neighbour = bool(case.options.get("neighbour")) and device == "cuda"
    with neighbour(
        is_wanted=has_neighbour
    ):  # nobody's of the run: that one's descendants are parts of it
        process = subprocess.run(
            [*recorder, *command(case, device, seconds, source)],
            cwd=ROOT,
            env={**os.environ, **({STARTED_VARIABLE: "1"} if has_neighbour else {})},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    runs = sorted(path.parent for path in out.glob("*/run.json"))
    if process.returncode or not runs:
        raise RecordingError(
            f"{case.name}: exit code {process.returncode}\n{process.stderr[-2000:]}"
        )
    return runs[-1]


def keep(run: Path, target: Path, *, is_small: bool = False) -> tuple[str, ...]:
    """Write a run into one file of at most 500 kB, and give the windows that had no room in it.

    Its windows are packed columns. Folders of this machine are called /project, /venv and /python
    in it, the machine "host". ``is_small``: windows with stacks, and the stacks that were sampled
    before the first step, are left out as if there were no room.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / run.name
        _copy_anonymous(run, copy, with_setup=not is_small)
        left_out = list[str]()
        windows = sorted((copy / "windows").glob("*"), key=_window_order)
        while (is_small and _has_stacks(windows)) or (not _fits(copy, target) and windows):
            window = windows.pop()
            left_out.append(window.name)
            window.unlink()
        return tuple(left_out)


def _has_stacks(windows: Sequence[Path]) -> bool:
    """Return whether the last of ordered windows has stacks."""
    return bool(windows) and "stacks" in windows[-1].name


def _fits(copy: Path, target: Path) -> bool:
    """Pack a run, and tell whether that is small enough."""
    target.unlink(missing_ok=True)
    pack(copy, target)
    pack_windows(target)
    return target.stat().st_size <= MAX_BYTES


def _window_order(window: Path) -> tuple[bool, int, str]:
    """Order windows: the earlier first, those with stacks (which name lines only) last."""
    step = re.search(r"step(\d+)", window.name)
    return "stacks" in window.name, int(step[1]) if step else 0, window.name


def _copy_anonymous(run: Path, copy: Path, *, with_setup: bool) -> None:
    """Copy a run without the names of this machine."""
    (copy / "logs").mkdir(parents=True)
    (copy / "windows").mkdir()
    (copy / "run.json").write_bytes(hide_machine((run / "run.json").read_bytes()))
    for log in (run / "logs").glob("*.log"):
        (copy / "logs" / log.name).write_bytes(b"".join(_frames(log, with_setup=with_setup)))
    for window in (run / "windows").glob("rank*.json.gz"):
        text = hide_machine(igzip.decompress(window.read_bytes()))
        (copy / "windows" / window.name).write_bytes(igzip.compress(text))


def _frames(log: Path, *, with_setup: bool) -> Iterator[bytes]:
    for kind, body in open_log(log).frames:
        content = bytes(body)
        if kind == wire.STACKS and not with_setup and json.loads(content)["thread"] == _SETUP:
            continue
        yield wire.frame(kind, content if kind in wire.PACKED else hide_machine(content))


def hide_machine(text: bytes) -> bytes:
    """Put other names for this machine and its folders."""
    names = {str(ROOT): "/project", sys.prefix: "/venv", sys.base_prefix: "/python"}
    for folder in sorted(names, key=len, reverse=True):
        end = rb"(?=[/\"' :\\])"
        if folder not in {"/", "/usr"}:
            text = re.sub(re.escape(folder.encode()) + end, names[folder].encode(), text)
    home = os.path.expanduser("~").rstrip("/")  # noqa: PTH111  as the store does
    if home.count("/") > 1 or home == "/root":
        text = re.sub(re.escape(home.encode()) + rb"(?=[/\"])", b"~", text)
    host = re.escape(json.dumps(socket.gethostname())[1:-1].encode())
    return re.sub(rb'("host(?:_?name)?":\s*)"' + host + rb'"', rb'\1"host"', text)


def remove(folder: Path) -> None:
    """Delete a run that was kept elsewhere."""
    shutil.rmtree(folder, ignore_errors=True)
