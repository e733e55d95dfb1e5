"""Trace → ledger → account: every nanosecond of a run charged to exactly one cause."""

from gapless.accounting.accounts import sum_ledgers, sum_row_accounts
from gapless.accounting.device.activities import Activities, collect_activities
from gapless.accounting.host.threads import Threads, sort_threads
from gapless.accounting.partition import JoinedTrace, join_trace, partition
from gapless.accounting.ranks.clock_lines import fit_clock
from gapless.accounting.ranks.collectives import (
    NO_ARRIVALS,
    Arrivals,
    Collectives,
    GroupKey,
    gather_collectives,
    join_arrivals,
    match_collectives,
    match_group,
    pair_ends,
    split_groups,
)

__all__ = [
    "NO_ARRIVALS",
    "Activities",
    "Arrivals",
    "Collectives",
    "GroupKey",
    "JoinedTrace",
    "Threads",
    "collect_activities",
    "fit_clock",
    "gather_collectives",
    "join_arrivals",
    "join_trace",
    "match_collectives",
    "match_group",
    "pair_ends",
    "partition",
    "sort_threads",
    "split_groups",
    "sum_ledgers",
    "sum_row_accounts",
]
