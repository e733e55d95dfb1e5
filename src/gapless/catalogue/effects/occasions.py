"""Fixes of what is done only now and then (checkpoints, logging, evaluation), and of memory."""

from typing import Final

from gapless.model.change import Change, Drop, Omit
from gapless.model.edit import Proposal, Skip, Wrap
from gapless.model.seen import Evidence

CHECKPOINT: Final = "idle.io_main.checkpoint"
LOGGING: Final = "idle.io_main.logging"
EVALUATION: Final = "idle.io_main.eval"
PROFILING: Final = "idle.io_main.profiling"
DEVICE_MEMORY: Final = ("cudaMalloc", "cudaFree", "hipMalloc", "hipFree")
_LEAVES: Final = {
    "checkpoint-every": CHECKPOINT,
    "no-checkpoint": CHECKPOINT,
    "log-every": LOGGING,
    "no-logging": LOGGING,
    "evaluate-every": EVALUATION,
    "no-evaluation": EVALUATION,
}
OCCASION_FIXES: Final = (*_LEAVES, "no-empty-cache")


def occasion_changes(_evidence: Evidence, proposal: Proposal) -> tuple[Change, ...] | None:
    """Return the share of them that goes; ``None`` for edits of another kind."""
    if proposal.fix == "no-empty-cache":
        return omit_allocations()
    periods = [_find_period(edit) for edit in proposal.edits if isinstance(edit, (Wrap, Skip))]
    if not periods:
        return None
    keep = min(0.0 if period is None else 1 / period for period in periods)
    return (Drop((_LEAVES[proposal.fix],), keep=keep),)


def omit_allocations() -> tuple[Change, ...]:
    """Return that memory of the device is never asked for, or given back, in a step."""
    return (Omit(DEVICE_MEMORY),)


def _find_period(edit: Wrap | Skip) -> int | None:
    """Return N where one of N is left; ``None`` where none is."""
    if isinstance(edit, Skip):
        return edit.every
    value = edit.options.get("every")
    return value if isinstance(value, int) and value > 0 else None
