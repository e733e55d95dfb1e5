"""What only trials do in the training: stop at a planned step, seeds, parity, samples."""

from __future__ import annotations

from typing import Any


def begin(plan: dict[str, Any]) -> None:
    """Begin a trial's arm in this process: what ``GAPLESS_OPTIONS`` says of it."""
