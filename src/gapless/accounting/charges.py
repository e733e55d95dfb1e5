"""Stretches of time, charged: what the stages of accounting exchange."""

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import asdict, replace

from gapless.accounting.intervals import NO_LANE, Lane, cover, empty_column
from gapless.model.trace import Int8, Int64

Bool = npt.NDArray[np.bool_]


class Charges(Struct, frozen=True):
    """Stretches ``[start, end)``; ``query`` says which question each one answers."""

    query: Int64
    start: Int64
    end: Int64
    leaf: Int64
    culprit: Int64  # event, −1
    is_loading: Bool  # loading in the training process: pays sync debt under its own name
    under: Int64  # leaf, −1
    refill: Int64  # event, −1
    peer: Int64  # rank, −1

    def __len__(self) -> int:
        """Count the stretches."""
        return len(self.start)

    def take(self, rows: Int64 | Bool | slice) -> "Charges":
        """Select stretches."""
        return Charges(**{name: column[rows] for name, column in asdict(self).items()})

    def cut_by(self, lane: Lane) -> "Charges":
        """Cut stretches along a lane and keep what lies in it; ``query`` becomes its owner."""
        cut = cover(lane, self.start, self.end)
        inside = np.flatnonzero(cut.piece >= 0)
        source_rows, set_fields = cut.query[inside], {"query", "start", "end"}
        other_columns = {
            name: column[source_rows]
            for name, column in asdict(self).items()
            if name not in set_fields
        }
        return Charges(
            query=lane.owner[cut.piece[inside]],
            start=cut.start[inside],
            end=cut.end[inside],
            **other_columns,
        )


def make_charges(
    start: Int64,
    end: Int64,
    leaf: Int64 | int,
    culprit: Int64 | int = -1,
    *,
    query: Int64 | None = None,
) -> Charges:
    """Make stretches; leaf and culprit may be one for all."""
    count = len(start)
    unknown = np.full(count, -1)
    return Charges(
        query=np.zeros(count, np.int64) if query is None else query,
        start=start,
        end=end,
        leaf=np.broadcast_to(leaf, count).astype(np.int64),
        culprit=np.broadcast_to(culprit, count).astype(np.int64),
        is_loading=np.zeros(count, bool),
        under=unknown,
        refill=unknown,
        peer=unknown,
    )


NO_CHARGES = make_charges(empty_column(), empty_column(), 0)


def stack_charges(groups: list[Charges]) -> Charges:
    """Put stretches together as they come."""
    return Charges(
        **{
            name: np.concatenate([asdict(group)[name] for group in groups])
            for name in asdict(NO_CHARGES)
        }
    )


def merge_charges(groups: list[Charges]) -> Charges:
    """Put stretches together, sorted by question and time."""
    stack = stack_charges(groups)
    return stack.take(np.lexsort((stack.start, stack.query)))


class ChargedLane(Struct, frozen=True):
    """A lane of a host thread: what is open at an instant (owner: event), the leaf it charges."""

    lane: Lane
    leaf: Int8
    is_loading: Bool

    def take(self, rows: Bool) -> "ChargedLane":
        """Select pieces."""
        lane = Lane(self.lane.start[rows], self.lane.end[rows], self.lane.owner[rows])
        return ChargedLane(lane, self.leaf[rows], self.is_loading[rows])

    def answer(self, questions: Charges) -> tuple[Charges, Charges]:
        """Cut questions along the lane: what it says, and where it says nothing."""
        cut = cover(self.lane, questions.start, questions.end)
        query, inside = questions.query[cut.query], cut.piece >= 0
        piece = cut.piece[inside]
        answers = make_charges(
            cut.start[inside],
            cut.end[inside],
            self.leaf[piece].astype(np.int64),
            self.lane.owner[piece],
            query=query[inside],
        )
        holes = make_charges(cut.start[~inside], cut.end[~inside], 0, query=query[~inside])
        return replace(answers, is_loading=self.is_loading[piece]), holes


NO_CHARGED_LANE = ChargedLane(NO_LANE, np.empty(0, np.int8), np.empty(0, bool))


def charge_lane(lane: Lane, leaf: int | Int64, is_loading: Bool | None = None) -> ChargedLane:
    """Make a host thread's lane; the leaf may be one for all."""
    count = len(lane)
    leaves = np.broadcast_to(leaf, count).astype(np.int8)
    return ChargedLane(lane, leaves, np.zeros(count, bool) if is_loading is None else is_loading)


def weave_lanes(segments: list[ChargedLane]) -> ChargedLane:
    """Put parts of a thread's lane that do not overlap into the order of time."""
    segments = [segment for segment in segments if len(segment.lane)] or segments
    if len(segments) == 1:
        return segments[0]
    start = np.concatenate([segment.lane.start for segment in segments])
    order = np.argsort(start, kind="stable")
    end = np.concatenate([segment.lane.end for segment in segments])[order]
    owner = np.concatenate([segment.lane.owner for segment in segments])[order]
    leaf = np.concatenate([segment.leaf for segment in segments])[order]
    is_loading = np.concatenate([segment.is_loading for segment in segments])[order]
    return ChargedLane(Lane(start[order], end, owner), leaf, is_loading)
