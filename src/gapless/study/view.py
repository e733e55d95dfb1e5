"""One capture with all that its tables need, and the one place that says which events count.

An event of a host thread counts if it starts within a counted step; an activity of a device
counts if it was launched within one (without a launch record: if it starts within one). So the
calls in a table are those of whole steps, and an operator's device time is that of its own
launches.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from gapless.accounting import Activities, Threads
from gapless.model.account import Account
from gapless.model.leaf import LEAVES
from gapless.model.ledger import Ledger
from gapless.model.trace import Int64, Trace

Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Launches:
    """What one thread launched, sorted: a measure of device time on the host's axis."""

    at: Int64
    before: Int64  # device ns of the launches up to each, with a leading 0

    def within(self, start: Int64, end: Int64) -> Int64:
        """Sum the device ns of what was launched in each ``[start, end)``."""
        first, last = np.searchsorted(self.at, start), np.searchsorted(self.at, end)
        return self.before[np.maximum(last, first)] - self.before[first]


@dataclass(frozen=True)
class View:
    """A capture, its ledger and account, and the spans of host time that count (ascending)."""

    trace: Trace
    ledger: Ledger
    account: Account
    side: Threads
    acts: Activities
    starts: Int64
    ends: Int64
    classes: Int64  # the busy leaf of each of ``acts``

    def inside(self, at: Int64) -> Bool:
        """Tell which instants lie in a counted step."""
        span = np.searchsorted(self.starts, at, side="right") - 1
        return (span >= 0) & (at < self.ends[np.maximum(span, 0)])

    def measure(self, at: Int64) -> Int64:
        """Give how much counted time lies before each instant."""
        before = np.concatenate(([0], np.cumsum(self.ends - self.starts)))
        span = np.searchsorted(self.starts, at, side="right") - 1
        here = np.maximum(span, 0)
        within = np.minimum(at, self.ends[here]) - self.starts[here]
        return np.where(span < 0, 0, before[here] + within)

    def counted(self, *categories: int) -> Int64:
        """Give the events of some host categories that count."""
        events = self.trace.events
        rows = np.flatnonzero(np.isin(events.category, categories))
        return rows[self.inside(events.start[rows])]

    @cached_property
    def active(self) -> Int64:
        """Give the positions in ``acts`` of the activities that count."""
        return np.flatnonzero(self.inside(self.acts.call_start))

    @cached_property
    def lengths(self) -> Int64:
        """Give the length of each activity of ``acts``."""
        return self.acts.end - self.acts.start

    @cached_property
    def launches(self) -> dict[int, Launches]:
        """Give the launches of each thread (track) that count."""
        found: dict[int, Launches] = {}
        thread, at = self.acts.thread[self.active], self.acts.call_start[self.active]
        lengths = self.lengths[self.active]
        for track in np.unique(thread[thread >= 0]).tolist():
            mine = np.flatnonzero(thread == track)
            mine = mine[np.argsort(at[mine], kind="stable")]
            before = np.concatenate(([0], np.cumsum(lengths[mine])))
            found[track] = Launches(at[mine], before)
        return found

    def launched(self, track: int) -> Launches:
        """Give the launches of one thread that count."""
        return self.launches.get(track, Launches(np.empty(0, np.int64), np.zeros(1, np.int64)))

    def device_ns(self, rows: Int64) -> Int64 | None:
        """Sum the device time launched within host events, by thread; ``None`` without devices."""
        if not len(self.acts):
            return None
        events = self.trace.events
        found = np.zeros(len(rows), np.int64)
        for track, launches in self.launches.items():
            mine = np.flatnonzero(events.track[rows] == track)
            found[mine] = launches.within(events.start[rows[mine]], events.end[rows[mine]])
        return found

    def charged_to(self, leaves: Sequence[int]) -> Int64:
        """Give the pieces of the ledger, in counted rows, that are charged to some leaves."""
        kept = {(a.row.device, a.row.step, a.row.start) for a in self.account.rows}
        rows = [(row.device, row.step, row.start) in kept for row in self.ledger.rows]
        wanted = np.zeros(len(LEAVES), bool)
        wanted[list(leaves)] = True
        return np.flatnonzero(wanted[self.ledger.leaf] & np.array(rows, bool)[self.ledger.row])
