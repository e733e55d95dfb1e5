"""What one rank's capture is reduced to before it leaves its process."""

from typing import Final

from msgspec import Struct

from gapless.accounting.clock import ClockRanges
from gapless.model.account import Account
from gapless.model.picture import Picture
from gapless.model.study import Leaf, Site, Straggler
from gapless.model.tables import Tables
from gapless.model.trace import Count
from gapless.model.work import Work

# a step; above it, debts and gains of syncs differ (docs: the account, 8)
SYNCS_TO_NOTE: Final = 20


class CaptureFacts(Struct, frozen=True):
    """What one rank's trace has and lacks: what the health lines are made of."""

    path: str
    rank: int | None
    world: int | None
    device: str | None
    capability: tuple[int, int] | None
    versions: tuple[tuple[str, str], ...]
    source: str
    events: int
    dropped: tuple[Count, ...]
    repaired: tuple[Count, ...]
    truncated: bool
    resolution_ns: int
    reader_notes: tuple[str, ...]
    partition_notes: tuple[Count, ...]
    step_rule: str
    clock_error_ns: int
    activities: int
    launched: int | None  # activities with a launch record; None without activities
    launches: int  # calls that have a device do something
    host_events: int
    has_shapes: bool
    has_stacks: bool
    has_sync_records: bool
    streams: int  # on which the busiest device worked
    syncs: int  # in counted steps
    step: str | None = None  # the ranges that the user says are steps


class CaptureSummary(Struct, frozen=True):
    """One rank's summary."""

    facts: CaptureFacts
    account: Account
    tables: Tables
    leaf: Leaf | None
    stragglers: tuple[Straggler, ...]
    backlog_ns: int | None = None  # Study.backlog_ns, of this capture
    own_ranges: ClockRanges | None = None  # of a window of ours
    sites: tuple[Site, ...] = ()
    work: tuple[Work, ...] = ()
    picture: Picture | None = None
    leaves: tuple[Leaf, ...] = ()


class UnreadableFile(Struct, frozen=True):
    """A rank that could not be read, and why."""

    path: str
    reason: str
