"""Ledger → account, by summing and by nothing else."""

from collections.abc import Mapping, Sequence

import numpy as np

from gapless.model.account import Account, RowAccount
from gapless.model.leaf import GROUP_CODE, GROUPS, LEAVES
from gapless.model.ledger import Ledger
from gapless.model.trace import Int64

_GROUP_BY_LEAF = np.array(GROUP_CODE, np.int64)


def sum_ledgers(ledgers: Sequence[Ledger], rows: Sequence[Sequence[int]] | None = None) -> Account:
    """Sum ledgers into one account.

    ``rows`` selects rows of each ledger by position; by default all that are not left out as
    warm-up.
    """
    counted_rows, warmup_rows = list[RowAccount](), list[RowAccount]()
    leaf_ns = np.zeros(len(LEAVES), np.int64)
    for index, ledger in enumerate(ledgers):
        row_indices = sorted(_regular_rows(ledger) if rows is None else rows[index])
        counted_indices = set(row_indices)
        ns_by_leaf = _sum_pieces(ledger, ledger.group_leaf().astype(np.int64))
        leaf_ns += ns_by_leaf[row_indices].sum(axis=0)
        for row_index, row_account in enumerate(_row_accounts(ledger, ns_by_leaf)):
            (counted_rows if row_index in counted_indices else warmup_rows).append(row_account)
    return sum_row_accounts(counted_rows, warmup_rows, _split_by_group(leaf_ns))


def sum_row_accounts(
    counted_rows: Sequence[RowAccount],
    warmup_rows: Sequence[RowAccount],
    parts: Mapping[str, Mapping[str, int]],
) -> Account:
    """Add the accounts of rows up; every sum is checked here, where it is made."""
    wall = sum(row_account.row.end - row_account.row.start for row_account in counted_rows)
    leaves = _add_mappings([row_account.leaves for row_account in counted_rows])
    groups = _add_mappings([row_account.groups for row_account in counted_rows])
    parts_ns = sum(sum(group.values()) for group in parts.values())
    if not wall == sum(leaves.values()) == sum(groups.values()) == parts_ns:
        msg = f"an account of {wall} ns sums to {sum(leaves.values())} ns over its leaves"
        raise AssertionError(msg)
    has_steps = any(row_account.row.step is not None for row_account in counted_rows)
    return Account(
        wall_ns=wall,
        steps=len(counted_rows) if has_steps else None,
        leaves=leaves,
        groups={group: groups.get(group, 0) for group in GROUPS},
        parts=parts,
        rows=tuple(counted_rows),
        left_out=tuple(warmup_rows),
    )


def _row_accounts(ledger: Ledger, ns_by_leaf: Int64) -> list[RowAccount]:
    leaves = _sum_pieces(ledger, ledger.leaf.astype(np.int64))
    groups = np.zeros((len(ledger.rows), len(GROUPS)), np.int64)
    np.add.at(groups.T, _GROUP_BY_LEAF, ns_by_leaf.T)
    return [
        RowAccount(row, _map_names(leaves[index], LEAVES), _map_names(groups[index], GROUPS))
        for index, row in enumerate(ledger.rows)
    ]


def _sum_pieces(ledger: Ledger, leaf: Int64) -> Int64:
    """Sum the lengths of pieces by row and leaf, as integers."""
    shape = (len(ledger.rows), len(LEAVES))
    sums = np.zeros(shape[0] * shape[1], np.int64)
    np.add.at(sums, ledger.row * shape[1] + leaf, ledger.end - ledger.start)
    return sums.reshape(shape)


def _regular_rows(ledger: Ledger) -> list[int]:
    return [index for index, row in enumerate(ledger.rows) if not row.left_out]


def _map_names(column: Int64, names: Sequence[str]) -> dict[str, int]:
    return {names[code]: int(column[code]) for code in np.flatnonzero(column).tolist()}


def _add_mappings(mappings: Sequence[Mapping[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for mapping in mappings:
        for name, ns in mapping.items():
            sums[name] = sums.get(name, 0) + ns
    return sums


def _split_by_group(leaf_ns: Int64) -> dict[str, dict[str, int]]:
    leaves_by_group: dict[str, dict[str, int]] = {}
    for code in np.flatnonzero(leaf_ns).tolist():
        leaves_by_group.setdefault(GROUPS[GROUP_CODE[code]], {})[LEAVES[code]] = int(leaf_ns[code])
    return leaves_by_group
