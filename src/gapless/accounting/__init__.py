"""Trace → ledger → account: every nanosecond of a run charged to exactly one cause."""

from gapless.accounting.accounts import account, total
from gapless.accounting.activities import Activities, activities
from gapless.accounting.collectives import NO_ARRIVALS, Arrivals, Collectives, collectives, match
from gapless.accounting.partition import Joined, join, partition
from gapless.accounting.threads import Threads, threads

__all__ = [
    "NO_ARRIVALS",
    "Activities",
    "Arrivals",
    "Collectives",
    "Joined",
    "Threads",
    "account",
    "activities",
    "collectives",
    "join",
    "match",
    "partition",
    "threads",
    "total",
]
