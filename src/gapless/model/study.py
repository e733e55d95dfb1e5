"""The study: what is known of one capture (one rank or many), ready to render."""

from dataclasses import dataclass

from gapless.model.account import Account, RowAccount
from gapless.model.tables import Tables
from gapless.model.trace import Count


@dataclass(frozen=True)
class RunInfo:
    """Where the capture comes from; ``None`` where a foreign trace does not say."""

    paths: tuple[str, ...]
    ranks: tuple[int, ...]
    world: int | None
    device: str | None
    versions: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class StudyHealth:
    """How far the numbers can be trusted: the readers' health, what partitioning left open."""

    source: str
    events: int
    dropped: int
    repaired: int
    truncated: bool
    resolution_ns: int
    launches_recorded: float | None
    clock_error_ns: int
    details: tuple[Count, ...]  # each kind of drop, repair and partition note, with its count
    notes: tuple[str, ...]  # sentences for the reader of the report


@dataclass(frozen=True)
class Steps:
    """Step times over the counted rows."""

    count: int
    left_out: int
    median_ns: int
    p10_ns: int
    p90_ns: int
    rule: str
    slowest: tuple[RowAccount, ...]  # longest first
    typical: RowAccount | None  # of (lower) median length: what the slowest are compared with


@dataclass(frozen=True)
class Study:
    """An account, the steps behind it, the tables that users know, and the health of it all."""

    run: RunInfo
    health: StudyHealth
    steps: Steps | None
    account: Account
    tables: Tables
