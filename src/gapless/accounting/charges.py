"""Stretches of time, charged: what the stages of accounting exchange."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gapless.accounting.intervals import NO_LANE, Lane, cover, empty
from gapless.model.trace import Int8, Int64

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

    def take(self, rows: Int64 | Bool | slice) -> "Charges":
        """Select stretches."""
        return Charges(**{name: column[rows] for name, column in vars(self).items()})

    def cut_by(self, lane: Lane) -> "Charges":
        """Cut stretches along a lane and keep what lies in it; ``query`` becomes its owner."""
        cut = cover(lane, self.start, self.end)
        inside = np.flatnonzero(cut.piece >= 0)
        asked, told = cut.query[inside], {"query", "start", "end"}
        rest = {name: column[asked] for name, column in vars(self).items() if name not in told}
        return Charges(
            query=lane.owner[cut.piece[inside]],
            start=cut.start[inside],
            end=cut.end[inside],
            **rest,
        )


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


@dataclass(frozen=True)
class Told:
    """A lane of a host thread: what is open at an instant (owner: event), the leaf it charges."""

    lane: Lane
    leaf: Int8
    home: Bool

    def take(self, rows: Bool) -> "Told":
        """Select pieces."""
        lane = Lane(self.lane.start[rows], self.lane.end[rows], self.lane.owner[rows])
        return Told(lane, self.leaf[rows], self.home[rows])

    def ask(self, asked: Charges) -> tuple[Charges, Charges]:
        """Cut questions along the lane: what it says, and where it says nothing."""
        cut = cover(self.lane, asked.start, asked.end)
        query, inside = asked.query[cut.query], cut.piece >= 0
        piece = cut.piece[inside]
        said = charges(
            cut.start[inside],
            cut.end[inside],
            self.leaf[piece].astype(np.int64),
            self.lane.owner[piece],
            query=query[inside],
        )
        holes = charges(cut.start[~inside], cut.end[~inside], 0, query=query[~inside])
        return replace(said, home=self.home[piece]), holes


NOTHING_TOLD = Told(NO_LANE, np.empty(0, np.int8), np.empty(0, bool))


def told(lane: Lane, leaf: int | Int64, home: Bool | None = None) -> Told:
    """Make a host thread's lane; the leaf may be one for all."""
    count = len(lane)
    leaves = np.broadcast_to(leaf, count).astype(np.int8)
    return Told(lane, leaves, np.zeros(count, bool) if home is None else home)


def woven(parts: list[Told]) -> Told:
    """Put parts of a thread's lane that do not overlap in order of time."""
    parts = [part for part in parts if len(part.lane)] or parts
    if len(parts) == 1:
        return parts[0]
    start = np.concatenate([part.lane.start for part in parts])
    order = np.argsort(start, kind="stable")
    end = np.concatenate([part.lane.end for part in parts])[order]
    owner = np.concatenate([part.lane.owner for part in parts])[order]
    leaf = np.concatenate([part.leaf for part in parts])[order]
    home = np.concatenate([part.home for part in parts])[order]
    return Told(Lane(start[order], end, owner), leaf, home)
