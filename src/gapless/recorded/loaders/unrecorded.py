"""How long unrecorded fetches were, inferred from the waits for their batches.

Only one in several short fetches is recorded, and a rare slow one may be missed. But a wait for a
batch shows when it was ready, and its worker began it when it had its indices and was done with the
one before.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import asdict

from gapless.model.trace import Int64

MAX_HAND_OVERS: Final = 4_000  # hand-overs that are considered: more than are ever replayed
_UNKNOWN: Final = -1
Bool = npt.NDArray[np.bool_]


class OrderedHandOvers(Struct, frozen=True):
    """Hand-overs of a loader whose workers take turns, in order, in ns; −1: not known."""

    ask: Int64
    got: Int64
    position: Int64  # in its iteration
    told: Int64  # when its worker was given the indices
    begun: Int64  # of its fetch, if that was recorded
    ready: Int64  # and its end

    def __len__(self) -> int:
        """Count the hand-overs."""
        return len(self.ask)


def infer_lengths(hand_overs: OrderedHandOvers, workers: int, passing: int) -> Int64:
    """Return the lengths of unrecorded fetches, in ns; −1: recorded, or not known.

    ``passing``: the time from the end of a fetch to the hand-over of a batch that is waited for. A
    batch that was ready took as long as a recorded one for which there was time.
    """
    lengths_ns = np.full(len(hand_overs), _UNKNOWN)
    recorded = np.flatnonzero(hand_overs.ready >= 0)
    recorded_ns: list[int] = np.sort((hand_overs.ready - hand_overs.begun)[recorded]).tolist()
    has_waited = (hand_overs.got - hand_overs.ask > 2 * passing).tolist()
    rows = zip(*(column.tolist() for column in asdict(hand_overs).values()), strict=True)
    ends: dict[int, int] = {}
    for index, (ask_ns, got_ns, position, told_ns, _, ready_ns) in enumerate(rows):
        if position == 0:
            ends = {}
        if ready_ns >= 0 or told_ns < 0 or index < len(hand_overs) - MAX_HAND_OVERS:
            ends[position] = ready_ns
            continue
        start_ns = max(told_ns, ends.get(position - workers, _UNKNOWN))
        if has_waited[index]:
            length_ns = max(0, got_ns - passing - start_ns)
        else:
            length_ns = _fitting_length(recorded_ns, max(0, ask_ns - start_ns), index)
        lengths_ns[index] = length_ns
        ends[position] = start_ns + length_ns
    return lengths_ns


def _fitting_length(recorded_ns: Sequence[int], max_ns: int, index: int) -> int:
    """Return one of the recorded lengths, in turn, that is no longer than there was time for.

    Cutting a longer one would turn every batch that was ready just in time into a slow fetch.
    """
    n_fitting = bisect_right(recorded_ns, max_ns)
    return (
        recorded_ns[index % n_fitting]
        if n_fitting
        else min(max_ns, recorded_ns[0])
        if recorded_ns
        else 0
    )


def split_lengths(lengths: Int64, shares: tuple[float, float]) -> tuple[Int64, Int64, Int64]:
    """Split lengths into running, waiting for a processor, and blocked, as recorded ones were."""
    on, queue = (np.rint(lengths * share).astype(np.int64) for share in shares)
    return on, queue, np.maximum(lengths - on - queue, 0)


def cpu_shares(wall: Int64, cpu: Int64, queue: Int64) -> tuple[float, float]:
    """Return the shares of recorded fetches on a processor and waiting for one."""
    is_known: Bool = (cpu >= 0) & (wall > 0)
    total_ns = max(1, int(wall[is_known].sum()))
    on_share = min(1.0, int(cpu[is_known].sum()) / total_ns)
    return on_share, min(1.0 - on_share, int(queue[is_known].clip(0).sum()) / total_ns)
