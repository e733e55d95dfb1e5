"""The account: the sum of a ledger, never made otherwise."""

from collections.abc import Mapping
from dataclasses import dataclass

from gapless.model.ledger import Row


@dataclass(frozen=True)
class RowAccount:
    """Integer nanoseconds of one row by leaf and by group; each sums to the row's length."""

    row: Row
    leaves: Mapping[str, int]  # zero leaves are left out
    groups: Mapping[str, int]


@dataclass(frozen=True)
class Account:
    """Integer nanoseconds by leaf and by group that sum to ``wall_ns`` exactly.

    Groups are sums over ledger rows, not over leaves (a launch goes to the group of what it was
    made under).
    ``rows`` holds every row that was counted; those left out as warm-up are in ``left_out``.
    """

    wall_ns: int
    steps: int | None  # steps counted; None where the capture has none
    leaves: Mapping[str, int]
    groups: Mapping[str, int]
    parts: Mapping[str, Mapping[str, int]]  # group → leaf (Ledger.group_leaf) → ns: the sub-lines
    rows: tuple[RowAccount, ...]
    left_out: tuple[RowAccount, ...] = ()
