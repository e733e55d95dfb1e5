"""Who this process is: its role, rank, worker, and the name of its log."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from .. import tracebacks
from ..process_state import keep
from . import parentage

SLOTS = 9  # logs of one name, for processes that live at the same time


class _Role:
    """Which worker of its loader this process is, if it is one."""

    def __init__(self) -> None:
        self.is_known = False
        self.worker: int | None = None
        self.workers = 1  # that its loader has

    def begin(self) -> None:
        """Look again: a child may be a worker."""
        self.is_known, self.worker = False, None


_role = keep(_Role())


def worker() -> int | None:
    """Return the number of this worker of a DataLoader; None: it is none."""
    if not _role.is_known:
        module = sys.modules.get("torch.utils.data._utils.worker")
        if module is None:
            return None
        info = getattr(module, "_worker_info", None)
        if info is None and parentage.lineage.inherited is not None:
            return None  # it may still become one
        _role.is_known = True
        if info is not None:
            _role.worker, _role.workers = info.id, info.num_workers
    return _role.worker


def workers() -> int | None:
    """Return how many workers the loader of this worker has; None: it is none."""
    return None if worker() is None else _role.workers


def stems() -> list[str]:
    """Return names for this process's log, the preferred one first; the last one is nobody else's.

    A worker's name has its number and not its loader: of a loader that is made anew for each epoch,
    each worker goes on in the log of the one before.
    """
    number = worker()
    if number is None:
        stem = f"rank{rank()}"
    else:
        _, parent = parentage.lineage.inherited or (-1, f"rank{rank()}")
        stem = f"{parent}-worker{number}"
    fallbacks = (f"{stem}-{slot}" for slot in range(2, SLOTS + 1))
    return [stem, *fallbacks, f"{stem}-pid{os.getpid()}"]


def rank() -> int:
    """Return the rank: torch.distributed's if it is initialised, else the environment's, or 0."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and worker() is None:
        try:
            if distributed.is_available() and distributed.is_initialized():
                return int(distributed.get_rank())
        except (AttributeError, RuntimeError, ValueError):
            pass
    return _number("RANK") or 0


def description() -> dict[str, Any]:
    """Return the value of a PROCESS frame."""
    number = worker()
    return {
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "role": "training" if number is None else "worker",
        "rank": rank(),
        "local_rank": _number("LOCAL_RANK"),
        "world": _number("WORLD_SIZE"),
        "worker": number,
        "loader": None if parentage.lineage.inherited is None else parentage.lineage.inherited[0],
        "argv": [*getattr(sys, "argv", [])],
        "executable": sys.executable,
        "start_ns": _read_start_ns(),
        "monotonic_ns": time.monotonic_ns(),
        "unix_ns": time.time_ns(),
        "versions": _versions(),
        "hostname": os.uname().nodename,
        "job": _job(),
    }


def _job() -> dict[str, Any]:
    """Return by what this process knows its job, which may be on several machines."""
    address, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    return {
        "run": os.environ.get("TORCHELASTIC_RUN_ID"),
        "master": f"{address}:{port}" if address and port else None,
        "node": _first_number("GROUP_RANK", "NODE_RANK", "SLURM_NODEID"),
        "nodes": _first_number("GROUP_WORLD_SIZE", "NNODES", "SLURM_NNODES"),
        "restart": _number("TORCHELASTIC_RESTART_COUNT"),
    }


def _first_number(*names: str) -> int | None:
    return next((number for number in map(_number, names) if number is not None), None)


def _number(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else None


def _read_start_ns() -> int | None:
    """Return when the process started, on the monotonic clock: to 10 ms, as the kernel keeps it."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        since_boot_ns = ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        asleep_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    except (OSError, ValueError, IndexError, AttributeError) as error:
        tracebacks.pass_on(error)
        return None
    return min(since_boot_ns - asleep_ns, time.monotonic_ns())


def _versions() -> dict[str, str]:
    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        versions["torch"] = str(getattr(torch, "__version__", None))
        cuda = getattr(getattr(torch, "version", None), "cuda", None)
        cudnn_version = getattr(getattr(torch._C, "_cudnn", None), "getCompileVersion", None)
        if cuda:
            versions["cuda"] = str(cuda)
        if cudnn_version is not None:
            versions["cudnn"] = ".".join(map(str, cudnn_version()))
    return versions
