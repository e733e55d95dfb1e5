"""A whole checkup: read the machine, measure it, run the checks."""

import os
import random
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gapless.doctor.checks import run_checks
from gapless.doctor.gpu_watch import add_loads, watch_load
from gapless.doctor.gpus import GpuLoad, GpuReading, GpuSurvey, survey_gpus
from gapless.doctor.interpreter import InterpreterChoice, InterpreterQuery
from gapless.doctor.processes import find_processor_use, read_processor_times
from gapless.doctor.subject import (
    CheckSubject,
    GpuMeasurement,
    read_folder,
    read_host,
)
from gapless.launch import probing
from gapless.launch.probing import ProbeRequest
from gapless.launch.samplers.gpu import open_library
from gapless.launch.unobserved import contain_failures, describe_error
from gapless.model.checkup import Checkup
from gapless.model.machine import Constants

MAX_FILES: Final = 256
_MAX_ENTRIES: Final = 20_000  # that are looked at
_MAX_S: Final = 2.0  # that looking may take


Say = Callable[[str], None]
_FAST_S: Final = 3.5  # for the interpreter to answer, of the five seconds of --fast
_PATIENCE_S: Final = 90.0  # likewise; a cold network disk may take so long to give torch
_HOST_PARTS: Final = ("cpu",)
_FIRST_GPU_PARTS: Final = ("launches", "copies", "gemm", "memory")
_GPU_PARTS: Final = ("copies", "gemm", "memory")  # of the others
_DATA_PART: Final = "data"


class CheckupRequest(Struct, frozen=True):
    """What is to be checked."""

    choice: InterpreterChoice
    began_s: float  # seconds of ``time.monotonic``: what --fast may take counts from there
    is_fast: bool = False
    data: Path | None = None
    names: frozenset[str] = frozenset()  # of the checks that are wanted; none: all of them


def check_machine(request: CheckupRequest, say: Say) -> Checkup:
    """Check the machine; ``say`` is told what is being done. It leaves nothing behind."""
    return judge_machine(request, read_machine(request, say))


def read_machine(request: CheckupRequest, say: Say) -> CheckSubject:
    """Read the machine, and measure it unless that is not wanted."""
    subject = read_host(request.data or Path.cwd())
    say("reading the machine")
    patience_s = _FAST_S if request.is_fast else _PATIENCE_S
    with InterpreterQuery(request.choice, subject.environment) as query:
        is_looking = not request.names or "neighbours" in request.names  # it takes half a second
        look = read_processor_times() if is_looking else None
        survey = _survey(subject.environment.get("CUDA_VISIBLE_DEVICES"))
        use = find_processor_use(look)
        if request.choice.python is not None:
            say(f"asking {request.choice.python} for its packages")
        report = query.wait(request.began_s + patience_s - time.monotonic())
    subject = replace(subject, survey=survey, use=use, interpreter=report)
    return subject if request.is_fast else _measure(subject, request.data, say)


def judge_machine(request: CheckupRequest, subject: CheckSubject) -> Checkup:
    """Run the checks on what was read."""
    return Checkup(
        _describe(subject),
        run_checks(subject, is_measured=not request.is_fast, names=request.names),
        time.monotonic() - request.began_s,
        request.choice.python,
        tuple(_list_notes(subject, is_fast=request.is_fast and not request.names)),
    )


def _list_notes(subject: CheckSubject, *, is_fast: bool) -> Iterator[str]:
    """Yield what was left out, and what disturbed the measuring."""
    if is_fast:
        yield "nothing was measured (--fast)"
    if subject.host_constants is not None:
        yield from _drop_load(subject.host_constants.notes)
    for measurement in subject.gpu_measurements:
        notes = _drop_load(measurement.constants.notes)
        yield from (f"GPU {measurement.number}: {note}" for note in notes)


def _drop_load(notes: Sequence[str]) -> list[str]:
    """Leave out the machine's load, which a check of its own is about."""
    return [note for note in notes if not note.startswith("a load ")]


def _survey(visible: str | None) -> GpuSurvey:
    surveys: list[GpuSurvey] = []
    with contain_failures() as failures:
        surveys.append(survey_gpus(visible))
    surveys += [GpuSurvey(why=f"NVML: {describe_error(error)}") for error in failures]
    return surveys[0]


def _measure(subject: CheckSubject, data: Path | None, say: Say) -> CheckSubject:
    """Return the subject with what was measured in the interpreter; without one, of nothing."""
    python = subject.interpreter.python
    if data is not None:
        subject = replace(subject, folder=read_folder(data), has_data=True)
    if python is None or subject.interpreter.facts is None:
        return subject
    files = _choose(subject, data)
    parts = [*_HOST_PARTS, *([_DATA_PART] if files else [])]
    request = ProbeRequest(parts=tuple(parts), files=files, seconds=8.0 if files else 4.0)
    host_constants = probing.measure(python, request, say)
    measurements: list[GpuMeasurement] = []
    loads: dict[int, GpuLoad] = {}
    for index, gpu in enumerate(subject.survey.gpus):
        constants, load = _measure_gpu(python, index, gpu, say)
        measurements.append(GpuMeasurement(gpu.number, constants))
        loads |= {gpu.number: load} if load is not None else {}
    return replace(
        subject,
        host_constants=host_constants,
        gpu_measurements=tuple(measurements),
        survey=add_loads(subject.survey, loads),
        folder=replace(subject.folder, files=len(files)),
    )


def _choose(subject: CheckSubject, data: Path | None) -> tuple[str, ...]:
    if data is None or subject.folder.why is not None:
        return ()
    with suppress(OSError):
        return choose_files(data)
    return ()


def _measure_gpu(
    python: str, index: int, gpu: GpuReading, say: Say
) -> tuple[Constants, GpuLoad | None]:
    """Measure one GPU in the interpreter, which sees only that one, whatever CUDA's order is."""
    environment = dict(os.environ)
    if gpu.uuid is not None and not gpu.mig:
        environment["CUDA_VISIBLE_DEVICES"] = gpu.uuid
    parts: Sequence[str] = _GPU_PARTS if index else _FIRST_GPU_PARTS
    request = ProbeRequest(device=0, parts=tuple(parts), seconds=15.0, environment=environment)

    def say_gpu(words: str) -> None:
        say(f"GPU {gpu.number}: {words}")

    with watch_load(open_library(), gpu.number) as loads:
        constants = probing.measure(python, request, say_gpu)
    return constants, loads[0] if loads else None


def _describe(subject: CheckSubject) -> str:
    """Return the interpreter, the processors and the GPUs in a few words."""
    report, gpus = subject.interpreter, subject.survey.gpus
    python = "no interpreter" if report.python is None else f"{report.python} ({report.origin})"
    n_cpus = len(subject.allowed_cpus or ()) or subject.n_cpus
    names = ", ".join(dict.fromkeys(gpu.name or "a GPU" for gpu in gpus))
    devices = f"{len(gpus)} × {names}" if gpus else "no GPU"
    return f"{python} · {n_cpus} processors · {devices}"


def choose_files(path: Path) -> tuple[str, ...]:
    """Return up to 256 regular files of a folder, or the file itself; symbolic links count.

    Of a large data set, of what could be listed in two seconds. Raises ``OSError`` for a path
    that cannot be looked at.
    """
    if not path.is_dir():
        return (str(path),) if stat.S_ISREG(path.stat().st_mode) else ()
    files = list(_list_files(path))
    return tuple(random.sample(files, min(MAX_FILES, len(files))))


def _list_files(path: Path) -> Iterator[str]:
    """Yield files of a folder and those below, folders in random order, until time is up."""
    until, count = time.monotonic() + _MAX_S, 0
    folders = [os.fspath(path)]
    while folders:
        folder = folders.pop(random.randrange(len(folders)))  # noqa: S311
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                count += 1
                if count > _MAX_ENTRIES or time.monotonic() > until:
                    return
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_file():
                    yield entry.path
