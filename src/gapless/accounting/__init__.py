"""Trace → ledger → account: every nanosecond of a run charged to exactly one cause."""

from gapless.accounting.accounts import account, total
from gapless.accounting.activities import Activities, activities
from gapless.accounting.collectives import NO_ARRIVALS, Arrivals, Collectives, collectives, match
from gapless.accounting.links import Links, link
from gapless.accounting.partition import partition
from gapless.accounting.threads import Threads, threads

__all__ = [
    "NO_ARRIVALS",
    "Activities",
    "Arrivals",
    "Collectives",
    "Links",
    "Threads",
    "account",
    "activities",
    "collectives",
    "link",
    "match",
    "partition",
    "threads",
    "total",
]
