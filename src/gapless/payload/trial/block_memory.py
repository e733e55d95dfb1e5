"""The most memory that blocks of a side had allocated on the device: a FACT of noun "block"."""

from __future__ import annotations

import sys
from typing import Any

from .. import recorder
from ..process_state import keep_fields


class _Peak:
    """The peak of all blocks of a side."""

    def __init__(self) -> None:
        self.bytes = 0


_peaks = keep_fields(by_side={})


def begin() -> None:
    """Begin a block: its peak is its own."""
    cuda = _cuda_in_use()
    if cuda is not None:
        cuda.reset_peak_memory_stats()


def end(side: int) -> None:
    """End a block of a side; nothing is written where no device is in use."""
    cuda = _cuda_in_use()
    if cuda is None:
        return
    peak = _peaks.by_side.setdefault(side, _Peak())
    peak.bytes = max(peak.bytes, cuda.max_memory_allocated())
    recorder.fact("block", peak, {"side": side, "memory_peak": peak.bytes})


def _cuda_in_use() -> Any:
    cuda = sys.modules.get("torch.cuda")
    return cuda if cuda is not None and cuda.is_initialized() else None
