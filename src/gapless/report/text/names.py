"""What leaves and processes are called in print; ``--leaf`` uses names of ``model.leaf``."""

from typing import Final

from gapless.model.run import ProcessTime
from gapless.report.text.text import clean

_SHORT: Final[dict[str, str]] = {
    "busy.tc_math": "tensor cores",
    "busy.tc_eligible_not_used": "matrix math off tensor cores",
    "busy.math": "matrix math",
    "busy.norm_reduce": "norms, reductions",
    "busy.elementwise": "elementwise",
    "busy.optimizer": "optimizer",
    "busy.zero_grad": "zero grad",
    "busy.gradclip_scaler": "clipping, scaler",
    "busy.mem": "fills, device copies",
    "busy.layout": "layout changes",
    "busy.cast": "casts",
    "busy.index": "indexing",
    "busy.rng": "random numbers",
    "busy.other": "other kernels",
    "busy.profiler": "its kernels",
    "copy.h2d.pageable": "to the device, pageable",
    "copy.h2d.pinned": "to the device, pinned",
    "copy.d2h": "to the host",
    "copy.p2p": "between devices",
    "comm.exposed": "exposed transfer",
    "comm.straggler_wait": "waiting for the last rank",
    "comm.wait_estimated": "waiting (estimated)",
    "idle.profiler": "the profiler",
    "idle.gc": "garbage collector",
    "idle.alloc": "device allocator",
    "idle.alloc.host": "host allocator",
    "idle.alloc.retry": "allocator retries",
    "idle.compile": "compiler",
    "idle.data.main": "in the training process",
    "idle.data.unstaged": "stage not recorded",
    "idle.data.sampler": "choosing samples",
    "idle.sync.return": "returning from it",
    "idle.sync.refill": "refilling the queue after it",
    "idle.io_main.checkpoint": "checkpoint",
    "idle.io_main.logging": "logging",
    "idle.io_main.eval": "evaluation",
    "idle.io_main.profiling": "the training's own profiler",
    "idle.h2d.host": "staging on the host",
    "idle.comm.host": "issuing collectives",
    "idle.host.optimizer": "optimizer",
    "idle.host.dispatch": "dispatch",
    "idle.host.engine": "autograd engine",
    "idle.host.python": "Python",
    "idle.host.unframed": "the script outside torch (inferred)",
    "idle.launch.api": "launch calls",
    "idle.launch.latency": "launch latency",
    "idle.device.gap": "between kernels",
    "idle.device.wait": "device waits, work launched",
    "idle.device.peer": "waiting for another device",
    "idle.graph": "within graphs",
    "idle.unrecorded": "launch not recorded",
    "idle.unknown": "nothing recorded",
    "step": "not split: no window shows it",
}


def short_name(leaf: str) -> str:
    """Return the few words for a leaf within its group; for a data stage its last word."""
    return _SHORT.get(leaf, leaf.rpartition(".")[2])


def process_name(process: ProcessTime) -> str:
    """Return a process's name: its rank, or without one its number and script."""
    if process.rank is not None:
        return f"rank {process.rank}"
    return f"process {process.pid}{'' if process.script is None else f' ({clean(process.script)})'}"
