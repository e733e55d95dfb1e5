"""The causes (*leaves*) that time is charged to, the groups that they are printed in."""

from typing import Final

GROUPS: Final = (  # in the order of the printed report
    "data",
    "compute",
    "copy",
    "communication",
    "host",
    "sync",
    "runtime",
    "io",
    "unknown",
    "observer",
)

# Of parameters: the same operators as a model's, called by optimizers and what precedes them.
PARAMETER_LEAVES: Final = ("busy.optimizer", "busy.gradclip_scaler", "busy.zero_grad")

PRINTED: Final = {
    "compute": "compute",
    "copy": "copying",
    "communication": "communication",
    "data": "waiting for data",
    "host": "waiting for the host",
    "sync": "synchronising",
    "runtime": "collector, allocator, compiler",
    "io": "saving, logging, evaluation, profiling",
    "observer": "this recorder",
    "unknown": "unknown",
    "step": "the step itself",  # of a recorded run: what no window splits
}

DATA_STAGES: Final = (
    "read",
    "decode",
    "augment",
    "tokenise",
    "collate",
    "other",
    "pin",
    "hand-over",
    "queue",
    "start-up",
    "dispatch",
    "unstaged",
    "main",
    "sampler",
)

BUSY: Final = (
    "profiler",
    "gradclip_scaler",
    "optimizer",
    "zero_grad",
    "mem",
    "layout",
    "cast",
    "tc_math",
    "tc_eligible_not_used",
    "math",
    "norm_reduce",
    "index",
    "rng",
    "elementwise",
    "other",
)

LEAVES: Final = (
    *(f"busy.{name}" for name in BUSY),
    "copy.h2d.pageable",
    "copy.h2d.pinned",
    "copy.d2h",
    "copy.p2p",
    "comm.exposed",
    "comm.straggler_wait",
    "comm.wait_estimated",
    "idle.profiler",
    "idle.gc",
    "idle.alloc",
    "idle.alloc.host",
    "idle.alloc.retry",
    "idle.compile",
    *(f"idle.data.{stage}" for stage in DATA_STAGES),
    "idle.sync.return",
    "idle.sync.refill",
    "idle.io_main.checkpoint",
    "idle.io_main.logging",
    "idle.io_main.eval",
    "idle.io_main.profiling",
    "idle.h2d.host",
    "idle.comm.host",
    "idle.host.optimizer",
    "idle.host.dispatch",
    "idle.host.engine",
    "idle.host.python",
    "idle.host.unframed",
    "idle.launch.api",
    "idle.launch.latency",
    "idle.device.gap",
    "idle.device.wait",
    "idle.device.peer",
    "idle.graph",
    "idle.unrecorded",
    "idle.unknown",
)
# What a device works, and waits for itself: prefixes; a step is at least as long.
DEVICE_WORK: Final = (
    "busy.",
    "copy.",
    "comm.",
    "idle.device.gap",
    "idle.device.peer",
    "idle.graph",
)
LEAF: Final = {name: code for code, name in enumerate(LEAVES)}

_PREFIXES: Final = {
    "busy": "compute",
    "busy.profiler": "observer",
    "idle.device.gap": "compute",
    "idle.graph": "compute",
    "copy": "copy",
    "idle.h2d": "copy",
    "comm": "communication",
    "idle.comm": "communication",
    "idle.device.peer": "communication",
    "idle.data": "data",
    "idle.host": "host",
    "idle.launch": "host",
    "idle.sync": "sync",
    "idle.gc": "runtime",
    "idle.alloc": "runtime",
    "idle.compile": "runtime",
    "idle.io_main": "io",
    "idle.profiler": "observer",
    "idle.device.wait": "unknown",
    "idle.unrecorded": "unknown",
    "idle.unknown": "unknown",
}


def group_of(leaf: str) -> str:
    """Return the group of a leaf: that of its longest prefix (``docs/the-account.md``)."""
    parts = leaf.split(".")
    for length in range(len(parts), 0, -1):
        group = _PREFIXES.get(".".join(parts[:length]))
        if group is not None:
            return group
    msg = f"leaf {leaf!r} belongs to no group"
    raise KeyError(msg)


GROUP_CODE: Final = tuple(GROUPS.index(group_of(leaf)) for leaf in LEAVES)
