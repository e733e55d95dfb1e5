"""The ledger: every nanosecond of a row of time, charged to one leaf and to the event to blame."""

import numpy as np
from msgspec import Struct

from gapless.model.leaf import LEAF
from gapless.model.trace import Count, Int8, Int32, Int64, Uint8

PHASES = ("unknown", "forward", "backward", "optimizer", "evaluation")
_LAUNCH = (LEAF["idle.launch.api"], LEAF["idle.launch.latency"])
TC_MISS_REASONS = ("", "fp32_no_tf32", "fp64", "misaligned", "grouped/depthwise", "too_small")


class Row(Struct, frozen=True):
    """One row of time: a device (or, without one, the training thread) within one step.

    Without steps there is one row over the capture, and ``step`` is ``None``.
    """

    rank: int | None
    device: int | None  # None: the training thread of a run without a device
    step: int | None  # ordinal in the capture; the number in ProfilerStep#n where there is one
    start: int
    end: int
    left_out: bool  # a warm-up row: kept, but not part of the account


class Facets(Struct, frozen=True):
    """Further columns of a ledger. They change no sum over leaves."""

    under: Int8  # launch.*: φ at the start of its call; sync.refill: the leaf before; −1
    refill: Int32  # the sync (event) whose debt this piece pays; −1
    phase: Uint8  # of busy pieces → PHASES
    recompute: Uint8  # 1: a forward operator run again in the backward (checkpointing)
    why: Uint8  # of busy.tc_eligible_not_used → WHYS
    peer: Int32  # of comm.straggler_wait: the rank that came last; −1
    hidden_comm: Int32 | Int64  # ns of communication that ran beneath this piece
    hidden_copy: Int32 | Int64  # ns of copies that ran beneath this piece


class Ledger(Struct, frozen=True):
    """Pieces that tile each row, sorted by row and start; ``culprit``: an event, or −1."""

    rows: tuple[Row, ...]
    row: Int32
    start: Int64
    end: Int64
    leaf: Uint8  # → model.leaf.LEAVES
    culprit: Int32
    facets: Facets
    step_rule: str  # how steps were found: "ProfilerStep#", "Optimizer.step#SGD.step", …, "none"
    main_track: int  # the training thread → Trace.tracks; −1 if no host thread was recorded
    launches_recorded: float | None  # share of activities with a record; None: no activities
    clock_error_ns: int
    notes: tuple[Count, ...]  # what partitioning had to leave open, and how often

    def __len__(self) -> int:
        """Count the pieces."""
        return len(self.start)

    def group_leaf(self) -> Uint8:
        """Return each piece's leaf that decides its group: ``under`` in place of a launch's."""
        under = self.facets.under
        launch = np.isin(self.leaf, _LAUNCH) & (under >= 0)
        return np.where(launch, under, self.leaf).astype(np.uint8)
