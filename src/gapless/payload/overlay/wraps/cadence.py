"""cadence: logging, checkpoints or evaluation each so manyth time only (risky: it is told)."""

from __future__ import annotations

from typing import Any, Callable

from . import no_checkpoint, no_evaluation, no_logging

_WRAPS = {"logging": no_logging, "checkpoint": no_checkpoint, "evaluation": no_evaluation}


def apply(number: int, edit: Any) -> Callable[[], None]:
    """Lay an edit; options: "what" (logging, checkpoint, evaluation), "every". Give what undoes it.

    Raises ``ValueError`` for options that say neither.
    """
    options = edit.get("options", {})
    wrap, period = _WRAPS.get(options.get("what")), options.get("every")
    if wrap is None or not isinstance(period, int) or period < 1:
        raise ValueError(f"cadence needs what ({', '.join(_WRAPS)}) and every, not {options}")
    return wrap.apply(number, edit)
