"""What checks look at: all that was read of the machine, as values."""

import os
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from gapless.doctor.gpus import GpuSurvey
from gapless.doctor.host_files import HostFiles
from gapless.doctor.interpreter import InterpreterReport
from gapless.model.machine import Constants

_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - its size is what matters


class Space(Struct, frozen=True):
    """Room on a file system, in bytes."""

    total: int
    free: int


class Limit(Struct, frozen=True):
    """A limit of this process; ``None``: there is none."""

    soft: int | None
    hard: int | None


class BusyProcess(Struct, frozen=True):
    """A process of others that ran while we looked."""

    name: str
    number: int
    processors: float  # that it kept busy


class ProcessorUse(Struct, frozen=True):
    """What others used of the processors while we looked."""

    busy: tuple[BusyProcess, ...] = ()
    hidden: float = 0.0  # processors that were busy with what is in no process that we see


class DataFolder(Struct, frozen=True):
    """The file system below a folder."""

    path: str
    device: tuple[int, int] | None = None  # major and minor number
    space: Space | None = None
    files: int = 0  # that were chosen to be read (--data)
    why: str | None = None  # nothing of it could be read


class GpuMeasurement(Struct, frozen=True):
    """What was measured on a GPU."""

    number: int  # as nvidia-smi counts
    constants: Constants


class CheckSubject(Struct, frozen=True):
    """The machine, as far as it was read."""

    files: HostFiles = field(default_factory=HostFiles)
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    allowed_cpus: frozenset[int] | None = None  # that this process may use, by its affinity
    n_cpus: int | None = None  # what os.cpu_count() says
    shared_memory: Space | None = None
    locked_memory: Limit | None = None  # bytes
    open_files: Limit | None = None
    use: ProcessorUse | None = None
    release: str | None = None  # of the kernel
    interpreter: InterpreterReport = field(default_factory=InterpreterReport)
    survey: GpuSurvey = field(default_factory=GpuSurvey)
    folder: DataFolder = DataFolder(".")
    has_data: bool = False  # the folder is that of --data
    host_constants: Constants | None = None  # None: not measured
    gpu_measurements: tuple[GpuMeasurement, ...] = ()


def read_host(folder: Path) -> CheckSubject:
    """Return what this process can say of its machine, at once; the rest is added to it."""
    return CheckSubject(
        environment=dict(os.environ),
        allowed_cpus=frozenset(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else None,
        n_cpus=os.cpu_count(),
        shared_memory=read_space(_SHARED_MEMORY),
        locked_memory=_read_limit(resource.RLIMIT_MEMLOCK)
        if hasattr(resource, "RLIMIT_MEMLOCK")
        else None,
        open_files=_read_limit(resource.RLIMIT_NOFILE),
        release=os.uname().release,
        folder=read_folder(folder),
    )


def read_folder(path: Path) -> DataFolder:
    """Return the file system of a folder or file."""
    try:
        number = path.stat().st_dev
        if path.is_dir():
            os.scandir(path).close()
    except OSError as error:
        return DataFolder(str(path), why=f"{path}: {error.strerror}")
    device = (os.major(number), os.minor(number))
    return DataFolder(str(path), device, read_space(str(path)))


def read_space(path: str) -> Space | None:
    """Return the room on a file system; ``None`` where there is none."""
    try:
        status = os.statvfs(path)
    except OSError:
        return None
    return Space(status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize)


def _read_limit(kind: int) -> Limit:
    soft, hard = (
        None if value == resource.RLIM_INFINITY else value for value in resource.getrlimit(kind)
    )
    return Limit(soft, hard)
