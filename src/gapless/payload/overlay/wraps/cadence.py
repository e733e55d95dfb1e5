"""cadence: logging, checkpoints or evaluation each so manyth time only (risky: it is told)."""

from __future__ import annotations

from typing import Any, Callable

from . import no_checkpoint, no_evaluation, no_logging

_PARTS = {"logging": no_logging, "checkpoint": no_checkpoint, "evaluation": no_evaluation}


def lay(number: int, edit: Any) -> Callable[[], None]:
    """Lay an edit; options: "what" (logging, checkpoint, evaluation), "every". Give what undoes it.

    Raises ``ValueError`` for options that say neither.
    """
    options = edit.get("options", {})
    part, every = _PARTS.get(options.get("what")), options.get("every")
    if part is None or not isinstance(every, int) or every < 1:
        raise ValueError(f"cadence needs what ({', '.join(_PARTS)}) and every, not {options}")
    return part.lay(number, edit)
