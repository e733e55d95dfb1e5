"""The mean loss of each block: a FACT of noun "block loss" for each, in their order."""

from __future__ import annotations

from .. import recorder
from . import losses

_blocks: list[_Block] = []  # so that each keeps a number of its own


class _Block:
    """A block whose losses were seen."""


def begin() -> None:
    """Begin a block: its losses are its own."""
    losses.begin_block()


def end(side: int) -> None:
    """End a block of a side; nothing is written where no loss was seen, or a scaler multiplies."""
    mean = losses.find_block_mean()
    if mean is not None:
        _blocks.append(_Block())
        recorder.fact("block loss", _blocks[-1], {"side": side, "mean": mean})
