"""How long fetches were that were not recorded: as long as the waits for their batches say.

Of short fetches one in several is recorded, and a rare slow one may be in none. But who waited for
a batch saw when it was ready, and its worker began it when it was told of it and through with the
one before.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from gapless.model.trace import Int64

LAST: Final = 4_000  # hand-overs that are looked at: as many as are ever replayed, and more
_NEVER: Final = -1
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Taken:
    """Hand-overs of a loader whose workers take turns, in order, in ns; −1: not known."""

    ask: Int64
    got: Int64
    position: Int64  # in its iteration
    told: Int64  # when its worker was given the indices
    begun: Int64  # of its fetch, if that was recorded
    ready: Int64  # likewise: its end

    def __len__(self) -> int:
        """Count the hand-overs."""
        return len(self.ask)


def lengths(taken: Taken, workers: int, passing: int) -> Int64:
    """Give how long each fetch was that was not recorded, in ns; −1: recorded, or nobody can tell.

    ``passing``: from the end of a fetch to the hand-over of a batch that is waited for. A batch
    that lay ready took as long as a recorded one for which there was time.
    """
    found = np.full(len(taken), _NEVER)
    known = np.flatnonzero(taken.ready >= 0)
    usual: list[int] = np.sort((taken.ready - taken.begun)[known]).tolist()
    waited = (taken.got - taken.ask > 2 * passing).tolist()
    rows = zip(*(one.tolist() for one in vars(taken).values()), strict=True)
    done: dict[int, int] = {}
    for at, (ask, got, position, told, _, ready) in enumerate(rows):
        if position == 0:
            done = {}
        if ready >= 0 or told < 0 or at < len(taken) - LAST:
            done[position] = ready
            continue
        start = max(told, done.get(position - workers, _NEVER))
        if waited[at]:
            length = max(0, got - passing - start)
        else:
            length = _of(usual, max(0, ask - start), at)
        found[at] = length
        done[position] = start + length
    return found


def _of(usual: Sequence[int], most: int, at: int) -> int:
    """Give one of the recorded lengths, in turn, that is no longer than there was time for.

    To cut a longer one would make it a slow fetch of every batch that was ready just in time.
    """
    fitting = bisect_right(usual, most)
    return usual[at % fitting] if fitting else min(most, usual[0]) if usual else 0


def parted(lengths: Int64, shares: tuple[float, float]) -> tuple[Int64, Int64, Int64]:
    """Part lengths into on a processor, waiting for one, and blocked, as the recorded were."""
    on, queue = (np.rint(lengths * share).astype(np.int64) for share in shares)
    return on, queue, np.maximum(lengths - on - queue, 0)


def shares(wall: Int64, cpu: Int64, queue: Int64) -> tuple[float, float]:
    """Give the shares of recorded fetches on a processor, and waiting for one."""
    known: Bool = (cpu >= 0) & (wall > 0)
    whole = max(1, int(wall[known].sum()))
    on = min(1.0, int(cpu[known].sum()) / whole)
    return on, min(1.0 - on, int(queue[known].clip(0).sum()) / whole)
