"""One capture with all that its tables need, and the one place that says which events count.

An event of a host thread counts if it starts within a counted step; an activity of a device
counts if it was launched within one (without a launch record: if it starts within one). So the
calls in a table are those of whole steps, and an operator's device time is that of its own
launches.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from gapless.accounting import Activities, Threads
from gapless.model.account import Account
from gapless.model.leaf import LEAVES
from gapless.model.ledger import Ledger
from gapless.model.trace import Int64, Trace

Bool = npt.NDArray[np.bool_]


class TrackLaunches(Struct, frozen=True):
    """What one thread launched, sorted: a measure of device time on the host's axis."""

    starts_ns: Int64
    cumulated_ns: Int64  # device ns of the launches up to each, with a leading 0

    def within(self, start: Int64, end: Int64) -> Int64:
        """Sum the device ns of what was launched in each ``[start, end)``."""
        first_index, last_index = (
            np.searchsorted(self.starts_ns, start),
            np.searchsorted(self.starts_ns, end),
        )
        return (
            self.cumulated_ns[np.maximum(last_index, first_index)] - self.cumulated_ns[first_index]
        )


class CaptureView(Struct, frozen=True, dict=True):
    """A capture, its ledger and account, and the spans of host time that count (ascending)."""

    trace: Trace
    ledger: Ledger
    account: Account
    side: Threads
    acts: Activities
    starts: Int64
    ends: Int64
    classes: Int64  # the busy leaf of each of ``acts``

    def is_inside(self, instants: Int64) -> Bool:
        """Flag the instants that lie in a counted step."""
        span = np.searchsorted(self.starts, instants, side="right") - 1
        return (span >= 0) & (instants < self.ends[np.maximum(span, 0)])

    def counted_before(self, instants: Int64) -> Int64:
        """Return how much counted time lies before each instant."""
        before = np.concatenate(([0], np.cumsum(self.ends - self.starts)))
        span = np.searchsorted(self.starts, instants, side="right") - 1
        span_index = np.maximum(span, 0)
        within = np.minimum(instants, self.ends[span_index]) - self.starts[span_index]
        return np.where(span < 0, 0, before[span_index] + within)

    def counted_events(self, *categories: int) -> Int64:
        """Return the events of some host categories that count."""
        events = self.trace.events
        rows = np.flatnonzero(np.isin(events.category, categories))
        return rows[self.is_inside(events.start[rows])]

    @cached_property
    def active(self) -> Int64:
        """Return the positions in ``acts`` of the activities that count."""
        return np.flatnonzero(self.is_inside(self.acts.call_start))

    @cached_property
    def lengths(self) -> Int64:
        """Return the length of each activity of ``acts``."""
        return self.acts.end - self.acts.start

    @cached_property
    def launches(self) -> dict[int, TrackLaunches]:
        """Return the launches of each thread (track) that count."""
        launches_by_track: dict[int, TrackLaunches] = {}
        thread, starts_ns = self.acts.thread[self.active], self.acts.call_start[self.active]
        lengths = self.lengths[self.active]
        for track in np.unique(thread[thread >= 0]).tolist():
            track_rows = np.flatnonzero(thread == track)
            track_rows = track_rows[np.argsort(starts_ns[track_rows], kind="stable")]
            before = np.concatenate(([0], np.cumsum(lengths[track_rows])))
            launches_by_track[track] = TrackLaunches(starts_ns[track_rows], before)
        return launches_by_track

    def launches_of(self, track: int) -> TrackLaunches:
        """Return the launches of one thread that count."""
        return self.launches.get(track, TrackLaunches(np.empty(0, np.int64), np.zeros(1, np.int64)))

    def device_ns(self, rows: Int64) -> Int64 | None:
        """Sum the device time launched within host events, by thread; ``None`` without devices."""
        if not len(self.acts):
            return None
        events = self.trace.events
        sums = np.zeros(len(rows), np.int64)
        for track, launches in self.launches.items():
            track_rows = np.flatnonzero(events.track[rows] == track)
            sums[track_rows] = launches.within(
                events.start[rows[track_rows]], events.end[rows[track_rows]]
            )
        return sums

    def charged_to(self, leaves: Sequence[int]) -> Int64:
        """Return the pieces of the ledger, in counted rows, that are charged to some leaves."""
        counted_rows = {
            (account_row.row.device, account_row.row.step, account_row.row.start)
            for account_row in self.account.rows
        }
        rows = [(row.device, row.step, row.start) in counted_rows for row in self.ledger.rows]
        wanted = np.zeros(len(LEAVES), bool)
        wanted[list(leaves)] = True
        return np.flatnonzero(wanted[self.ledger.leaf] & np.array(rows, bool)[self.ledger.row])
