"""Effects of fixes for periodic work (checkpoints, logging, evaluation), and for memory."""

from typing import Final

from gapless.model.change import Change, Drop, Omit
from gapless.model.edit import Proposal, Skip, Wrap
from gapless.model.evidence import Evidence

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
    """Return what a fix removes of periodic work; ``None`` for edits of another kind."""
    if proposal.fix == "no-empty-cache":
        return omit_allocations()
    periods = [_find_period(edit) for edit in proposal.edits if isinstance(edit, (Wrap, Skip))]
    if not periods:
        return None
    keep = min(0.0 if period is None else 1 / period for period in periods)
    return (Drop((_LEAVES[proposal.fix],), keep=keep),)


def omit_allocations() -> tuple[Change, ...]:
    """Return the change that no step allocates or frees device memory."""
    return (Omit(DEVICE_MEMORY),)


def _find_period(edit: Wrap | Skip) -> int | None:
    """Return N if one in N remains; ``None`` if none does."""
    if isinstance(edit, Skip):
        return edit.every
    value = edit.options.get("every")
    return value if isinstance(value, int) and value > 0 else None
