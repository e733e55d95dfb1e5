"""Run a script of others in a folder of its own: laid out, with its data, on some processors.

Measuring is done without gapless: ``counting/sitecustomize.py`` notes the steps. Only where a fix
of gapless is measured, its recorder applies that, and is in the script without it, too.
"""

import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.planted.data import make
from benchmarks.planted.scripts import STANDINS, Script, lay_out
from gapless.catalogue.fixes.host.malloc import VARIABLES
from gapless.launch.environment import RecorderSettings, build_environment

COUNTING: Final = Path(__file__).with_name("counting")
# Files that are there once something was left out; once operators were called in a function that is
# done twice; and the elements that models were given in some steps.
REMOVED: Final = "removed"
OPERATORS: Final = "operators"
ELEMENTS: Final = "elements"
_MIN_STEPS: Final = 20
_TOPOLOGY: Final = Path("/sys/devices/system/cpu")


class RunError(Exception):
    """A script ended, or took too long, before enough of its steps were counted."""


def whole_cores(processors: Iterable[int], topology: Path = _TOPOLOGY) -> list[int]:
    """Return processors in an order in which the threads of one physical core are neighbours.

    So a lane has cores of its own: lanes that share one would slow each other down.
    """

    def first_sibling(processor: int) -> int:
        try:
            siblings = (topology / f"cpu{processor}/topology/thread_siblings_list").read_text()
        except OSError:
            return processor
        return int(re.split("[,-]", siblings.strip())[0] or processor)

    return sorted(processors, key=lambda processor: (first_sibling(processor), processor))


def kept_memory() -> dict[str, str]:
    """Return variables by which the C library keeps what tensors gave back, as they are set here.

    As it is, it gives their memory to the kernel in each step or keeps it, as its heap happens to
    lie: two starts of one training would differ by up to two times (``returned_memory.py``).
    """
    return {name: os.environ.get(name, value) for name, value in VARIABLES.items()}


def visible_gpu(number: int) -> str:
    """Return the name of a GPU, counted among those that ``CUDA_VISIBLE_DEVICES`` leaves here."""
    names = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return names[number] if number < len(names) else str(number)


@dataclass(frozen=True)
class Alteration:
    """What is done to a script while it runs, its source as it is."""

    edits: tuple[Mapping[str, Any], ...] | None = None  # by gapless; None: it is not there
    removal: str = ""  # what ``counting/removing`` leaves out …
    option: str = ""  # … and how
    watch: str = ""  # what it counts
    arguments: tuple[str, ...] | None = None  # of the command, in place of the script's


@dataclass(frozen=True)
class Lane:
    """Where cases run one after the other: its processors, its device, its folder."""

    number: int
    cores: tuple[int, ...]
    device: str
    folder: Path
    threads: int = 0  # of a tensor operation; 0: as many as processors
    # Held while something is measured or recorded: lanes of one GPU would make each other's steps
    # several times as long, and a recording would tell of a GPU that is shared.
    exclusive: contextlib.AbstractContextManager[Any] = field(
        default_factory=contextlib.nullcontext
    )
    gpu: int | None = None  # the only one it sees, of those that are visible here
    alterations: Mapping[Path, Alteration] = field(default_factory=dict[Path, Alteration])
    memory: Mapping[str, str] = field(default_factory=kept_memory)  # variables of the C library

    def of_record(self, case_record: Mapping[str, Any]) -> "Lane":
        """Return it for a case, which goes on with the memory that it began with.

        Cases of before have none in their records.
        """
        if not case_record.keys() & {"truth", "earlier", "recorded"}:
            return self
        return replace(self, memory=(case_record.get("recorder") or {}).get("memory", {}))

    def environment(self, script: Script, root: Path) -> dict[str, str]:
        """Return the environment that a script runs in."""
        threads = str(self.threads or len(self.cores))
        paths = [str(root / path) for path in script.paths]
        inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        paths += [
            str(stand_ins(self.folder)),
            *(str(Path(path).resolve()) for path in inherited if path),
        ]
        variables = {
            "PYTHONPATH": os.pathsep.join(paths),  # absolute: scripts run in folders of their own
            "OMP_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
            "PYTHONUNBUFFERED": "1",
            "PYTHONHASHSEED": "0",  # arms differ by what is planted alone
            "MPLBACKEND": "Agg",
            "HF_HUB_OFFLINE": "1",
            "WANDB_MODE": "disabled",
            "TMPDIR": str(self.folder),
        } | dict(self.memory)
        if self.device == "cpu":
            variables["CUDA_VISIBLE_DEVICES"] = ""
        elif self.gpu is not None:
            variables["CUDA_VISIBLE_DEVICES"] = visible_gpu(self.gpu)
        outer_variables = {
            name: value for name, value in os.environ.items() if not name.startswith("GAPLESS")
        }
        return outer_variables | variables

    def command(self, script: Script, root: Path) -> list[str]:
        """Return the command line of a script there, altered as it is to be."""
        entry, *arguments = script.command(self.device)
        altered = self.alterations.get(root, Alteration()).arguments
        return [sys.executable, entry, *(arguments if altered is None else altered)]

    def spool(self, root: Path) -> Path:
        """Return where an altered script, or its recorder, tells what took effect."""
        return self.folder / "spools" / root.parent.name

    def counting_environment(self, script: Script, root: Path) -> dict[str, str]:
        """Return the same for a script whose steps are counted, altered as it is to be."""
        environment = self.environment(script, root)
        environment["PYTHONPATH"] = f"{COUNTING}{os.pathsep}{environment['PYTHONPATH']}"
        alteration = self.alterations.get(root)
        if alteration is None:
            return environment
        spool = self.spool(root)
        spool.mkdir(mode=0o700, parents=True, exist_ok=True)
        environment |= {
            "PLANTED_NOTES": str(spool),
            "PLANTED_REMOVAL": alteration.removal,
            "PLANTED_REMOVAL_OPTION": alteration.option,
            "PLANTED_WATCH": alteration.watch,
        }
        if alteration.edits is None:
            return environment
        settings = RecorderSettings(
            windows=False, stacks_hz=0, edits=(*map(dict, alteration.edits),)
        )
        return build_environment(environment, spool, settings)


@dataclass(frozen=True)
class Arm:
    """What one process showed: seconds a step, how many were counted, and which marks."""

    step_s: float
    steps: int
    kind: str


def stand_ins(folder: Path) -> Path:
    """Return a folder of the stand-ins for modules that are not installed here."""
    target = folder / "stand-ins"
    if not target.exists():
        partial = folder / "stand-ins.part"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for source in sorted(STANDINS.iterdir()):
            if source.name != "__pycache__" and importlib.util.find_spec(source.stem) is None:
                copy = shutil.copytree if source.is_dir() else shutil.copy
                copy(source, partial / source.name)
        partial.rename(target)
    return target


def prepare(script: Script, folder: Path, sources: Path | None) -> None:
    """Lay a script out in a new folder, with its data. Raises ``FetchError``."""
    if not folder.exists():
        partial = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        lay_out(script, partial, sources)
        for entry in script.data:
            make(entry, partial)
        partial.rename(folder)


def run_arm(script: Script, root: Path, lane: Lane, seconds: float, limit_s: float) -> Arm:
    """Run a script for some seconds of steps and give what its steps take.

    Raises ``RunError`` with the end of what it printed.
    """
    steps = lane.folder / f"steps-{root.name}.json"
    steps.unlink(missing_ok=True)
    environment = lane.counting_environment(script, root)
    environment |= {
        "PLANTED_STEPS": str(steps),
        "PLANTED_SECONDS": str(seconds),
        "PLANTED_LEAST": str(_MIN_STEPS),
    }
    printed = run(lane.command(script, root), root / script.cwd, (environment, lane.cores), limit_s)
    if not steps.exists():
        raise RunError(f"{script.name} was over before its steps were counted: {printed}")
    counted = json.loads(steps.read_text())
    marks = counted["marks"]
    return Arm((marks[-1] - marks[0]) / (len(marks) - 1), len(marks) - 1, counted["kind"])


class Live:
    """A script that runs until it is ended, its steps in ``stream``; it can be stopped meanwhile.

    With it stops all that it started.
    """

    def __init__(self, script: Script, root: Path, lane: Lane, name: str) -> None:
        """Start it."""
        self.cores = lane.cores
        self.stream = lane.folder / f"stream-{name}"
        self.stream.unlink(missing_ok=True)
        environment = lane.counting_environment(script, root)
        environment["PLANTED_STREAM"] = str(self.stream)
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed where it is ended
        self._process = subprocess.Popen(
            [*_pin_prefix(lane.cores), *lane.command(script, root)],
            cwd=root / script.cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Return its number, which is that of its session."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Return whether it has ended by itself."""
        return self._process.poll() is not None

    @property
    def output_tail(self) -> str:
        """Return the end of what it printed; nothing once it was ended."""
        if self._output.closed:
            return ""
        self._output.seek(max(0, self._output.seek(0, os.SEEK_END) - 1500))
        return self._output.read().decode(errors="replace").strip()

    def stop(self) -> None:
        """Let it stand still."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def end(self) -> None:
        """End it, and what it started."""
        _end(self._process)
        self._output.close()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def can_pin() -> bool:
    """Return whether trainings can be bound to processors here."""
    return shutil.which("taskset") is not None


def _pin_prefix(cores: tuple[int, ...]) -> list[str]:
    taskset = shutil.which("taskset") if cores else None
    return [taskset, "-c", ",".join(map(str, cores))] if taskset else []


def run(
    command: Sequence[str],
    cwd: Path,
    placement: tuple[Mapping[str, str], tuple[int, ...]],
    limit_s: float,
) -> str:
    """Run a command in an environment, on some processors; give the end of what it printed.

    All that it started is ended with it, and after ``limit_s`` seconds at the latest. Meanwhile the
    caller sleeps: it may have to share these processors.
    """
    environment, cores = placement
    late = threading.Event()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [*_pin_prefix(cores), *command],
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

        def end_late() -> None:
            late.set()
            _kill(process)

        timer = threading.Timer(limit_s, end_late)
        timer.start()
        try:
            process.wait()  # with a limit it would look twenty times a second
        finally:
            timer.cancel()
            timer.join()
            _end(process)
        output.seek(max(0, output.tell() - 3000))
        printed = output.read().decode(errors="replace").strip()[-1500:]
        return f"{printed} (ended after {limit_s:.0f} s)" if late.is_set() else printed


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a process and what it started: workers outlive a training that left by ``_exit``."""
    _kill(process)
    process.wait()


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
