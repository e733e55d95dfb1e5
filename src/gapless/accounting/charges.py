"""Stretches of time, charged: what the stages of accounting exchange."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gapless.accounting.intervals import Cut, Lane, cover, empty
from gapless.model.trace import Int64

Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Charges:
    """Stretches ``[start, end)``; ``query`` says which question each one answers."""

    query: Int64
    start: Int64
    end: Int64
    leaf: Int64
    culprit: Int64  # event, −1
    home: Bool  # loading in the training process: pays sync debt under its own name
    under: Int64  # leaf, −1
    refill: Int64  # event, −1
    peer: Int64  # rank, −1

    def __len__(self) -> int:
        """Count the stretches."""
        return len(self.start)

    def take(self, rows: Int64 | Bool) -> "Charges":
        """Select stretches."""
        return Charges(**{name: column[rows] for name, column in vars(self).items()})

    def lane(self) -> Lane:
        """See disjoint, sorted stretches as a lane whose owners are their positions."""
        return Lane(self.start, self.end, np.arange(len(self)))

    def within(self, cut: Cut) -> "Charges":
        """Give the parts of these stretches along a cut made of ``lane()``; holes are left out."""
        inside = cut.piece >= 0
        at = cut.piece[inside]
        rest = {name: column[at] for name, column in vars(self).items()}
        rest |= {"query": cut.query[inside], "start": cut.start[inside], "end": cut.end[inside]}
        return Charges(**rest)

    def cut_by(self, lane: Lane) -> "Charges":
        """Cut stretches along a lane and keep what lies in it; ``query`` becomes its owner."""
        cut = cover(lane, self.start, self.end)
        inside = cut.piece >= 0
        rest = {name: column[cut.query[inside]] for name, column in vars(self).items()}
        owner = lane.owner[cut.piece[inside]] if len(lane) else cut.piece[inside]
        rest |= {"query": owner, "start": cut.start[inside], "end": cut.end[inside]}
        return Charges(**rest)


def charges(
    start: Int64,
    end: Int64,
    leaf: Int64 | int,
    culprit: Int64 | int = -1,
    *,
    query: Int64 | None = None,
) -> Charges:
    """Make stretches; leaf and culprit may be one for all."""
    count = len(start)
    none = np.full(count, -1)
    return Charges(
        query=np.zeros(count, np.int64) if query is None else query,
        start=start,
        end=end,
        leaf=np.broadcast_to(leaf, count).astype(np.int64),
        culprit=np.broadcast_to(culprit, count).astype(np.int64),
        home=np.zeros(count, bool),
        under=none,
        refill=none,
        peer=none,
    )


NO_CHARGES = charges(empty(), empty(), 0)


def stacked(parts: list[Charges]) -> Charges:
    """Put stretches together as they come."""
    return Charges(
        **{name: np.concatenate([vars(part)[name] for part in parts]) for name in vars(NO_CHARGES)}
    )


def joined(parts: list[Charges]) -> Charges:
    """Put stretches together, sorted by question and time."""
    every = stacked(parts)
    return every.take(np.lexsort((every.start, every.query)))
