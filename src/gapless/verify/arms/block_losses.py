"""Whether losses keep their level in the blocks of a side that is switched in one process.

The same batches are never trained on with and without an edit there, so losses cannot be compared
one by one. But a training whose losses jump when an edit is on, and back when it is off, is another
one: the mean loss of a block is compared with those of the unedited blocks around it, against how
far unedited blocks lie from their own neighbours.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from msgspec import Struct

from gapless.model.recording import Process

_MIN_UNEDITED: Final = 3  # deviations of unedited blocks, of which the spread is taken
_ERRORS: Final = 5.0  # standard errors of a median: farther off, another level is proven
_MIN_SHIFT: Final = 0.02  # of the usual loss: smaller shifts are not looked for
_NORMAL: Final = 1.4826  # the standard deviation of normal values over their median deviation
_MEDIAN_FACTOR: Final = 1.2533  # the standard error of a median over that of the mean

BlockLosses = Sequence[tuple[int, float]]  # side, mean loss; in their order


class LossLevel(Struct, frozen=True):
    """The mean loss of a side's blocks, that of those around them, whether these differ."""

    edited: float
    unedited: float
    is_different: bool

    def describe(self) -> str:
        """Return it as words."""
        return f"loss {self.edited:.4g} in its blocks, {self.unedited:.4g} around them"


def read_block_losses(process: Process) -> Iterator[tuple[int, float]]:
    """Yield side and mean loss of each block whose losses were seen."""
    for fact in sorted(process.facts, key=lambda fact: fact.id):
        side, mean = fact.values.get("side"), fact.values.get("mean")
        if fact.noun == "block loss" and isinstance(side, int) and isinstance(mean, int | float):
            yield side, float(mean)


def compare_level(losses: BlockLosses, side: int) -> LossLevel | None:
    """Return how the losses of a side's blocks compare; ``None`` where too few are known."""
    triples = list(zip(losses, losses[1:], losses[2:], strict=False))
    edited, around = list[float](), list[float]()
    for before, block, after in triples:
        if block[0] == side and before[0] == after[0] == 0:
            edited.append(block[1])
            around.append((before[1] + after[1]) / 2)
    unedited = [mean for of_side, mean in losses if of_side == 0]
    deviations = [
        (before + after) / 2 - middle
        for (before, middle), (_, after) in pairwise(pairwise(unedited))
    ]
    if not edited or len(deviations) < _MIN_UNEDITED:
        return None
    shift = abs(float(np.median(np.subtract(edited, around))))
    spread = _NORMAL * float(np.median(np.abs(deviations)))
    error = _MEDIAN_FACTOR * spread / math.sqrt(len(edited))
    level = float(np.median(np.abs(unedited)))
    is_different = shift > max(_ERRORS * error, _MIN_SHIFT * level)
    return LossLevel(float(np.mean(edited)), float(np.mean(around)), is_different)
