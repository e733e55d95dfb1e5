"""cadence: logging, checkpoints or evaluation every n-th time only (risky, and said so)."""

from __future__ import annotations

from typing import Any, Callable

from . import no_checkpoint, no_evaluation, no_logging

_WRAPS = {"logging": no_logging, "checkpoint": no_checkpoint, "evaluation": no_evaluation}


def apply(number: int, edit: Any) -> Callable[[], None]:
    """Apply an edit; options: "what" and "every". Return what reverts it.

    "what": logging, checkpoint or evaluation. Raises ``ValueError`` for options that say neither.
    """
    options = edit.get("options", {})
    wrap, period = _WRAPS.get(options.get("what")), options.get("every")
    if wrap is None or not isinstance(period, int) or period < 1:
        raise ValueError(f"cadence needs what ({', '.join(_WRAPS)}) and every, not {options}")
    return wrap.apply(number, edit)
