"""The account: the sum of a ledger, never made otherwise."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from gapless.model.frame import build_frame
from gapless.model.ledger import Row


class RowAccount(Struct, frozen=True):
    """Integer nanoseconds of one row by leaf and by group; each sums to the row's length."""

    row: Row
    leaves: Mapping[str, int]  # zero leaves are left out
    groups: Mapping[str, int]


class Account(Struct, frozen=True):
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

    def busy_ns(self) -> int:
        """Return the nanoseconds in which devices worked (``busy.*``), copies apart."""
        return sum(ns for leaf, ns in self.leaves.items() if leaf.startswith("busy."))

    def divisor(self) -> int:
        """Return how many steps the sums are of: 1 where there are none.

        That is the number of rows; an account without rows is already the sum of its steps.
        """
        return max(1, len(self.rows) or self.steps) if self.steps is not None else 1

    def walk_step(self) -> Iterator[tuple[str, str | None, float]]:
        """Yield where a mean step goes: a group, no leaf, ns; then each of its leaves.

        Groups without time are left out: in a step that no window splits they are unknown.
        """
        divisor = self.divisor()
        for group, ns in self.groups.items():
            if ns and self.steps:
                yield group, None, ns / divisor
                for leaf, leaf_ns in self.parts.get(group, {}).items():
                    yield group, leaf, leaf_ns / divisor

    def to_frame(self, by: Literal["leaf", "group"] = "leaf") -> Any:  # noqa: ANN401
        """Build a frame of polars, pandas or pyarrow: a line for each part of each row.

        Columns: rank, device, step, start_ns, end_ns, left_out, then ``by`` and ns. Summed over
        the rows that are not left out it gives the account. Raises ``NotFoundError`` where no
        such library is installed.
        """
        return build_frame(_frame_columns((*self.rows, *self.left_out), by))


def _frame_columns(
    rows: tuple[RowAccount, ...], by: Literal["leaf", "group"]
) -> dict[str, list[object]]:
    records = [
        (
            row_account.row.rank,
            row_account.row.device,
            row_account.row.step,
            row_account.row.start,
            row_account.row.end,
            row_account.row.left_out,
            name,
            ns,
        )
        for row_account in rows
        for name, ns in (row_account.leaves if by == "leaf" else row_account.groups).items()
    ]
    heads = ("rank", "device", "step", "start_ns", "end_ns", "left_out", by, "ns")
    return {head: [record[index] for record in records] for index, head in enumerate(heads)}
