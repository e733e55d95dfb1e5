"""What edits of periodic work change: checkpoints, logging, evaluation."""

from typing import Final

from gapless.catalogue.declare.fix import Changes, Effect
from gapless.model.change import Drop
from gapless.model.edit import Proposal, Skip, Wrap
from gapless.model.evidence import Evidence

CHECKPOINT: Final = "idle.io_main.checkpoint"
LOGGING: Final = "idle.io_main.logging"
EVALUATION: Final = "idle.io_main.eval"
PROFILING: Final = "idle.io_main.profiling"


def cadence_effect(leaf: str) -> Effect:
    """Return the effect of a fix that leaves out periodic work, all of it or all but one in N."""

    def predict_changes(_evidence: Evidence, proposal: Proposal) -> Changes | None:
        periods = [find_period(edit) for edit in proposal.edits if isinstance(edit, (Wrap, Skip))]
        if not periods:
            return None
        return (
            Drop((leaf,), keep=min(0.0 if period is None else 1 / period for period in periods)),
        )

    return predict_changes


def find_period(edit: Wrap | Skip) -> int | None:
    """Return N if one in N remains; ``None`` if none does."""
    if isinstance(edit, Skip):
        return edit.every
    value = edit.options.get("every")
    return value if isinstance(value, int) and value > 0 else None


def find_proposed_period(proposal: Proposal) -> int | None:
    """Return N of the first part that lets one in N remain."""
    periods = (find_period(edit) for edit in proposal.edits if isinstance(edit, Wrap))
    return next((period for period in periods if period is not None), None)
