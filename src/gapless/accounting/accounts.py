"""Ledger → account, by summing and by nothing else."""

from collections.abc import Mapping, Sequence

import numpy as np

from gapless.model.account import Account, RowAccount
from gapless.model.leaf import GROUP_CODE, GROUPS, LEAVES
from gapless.model.ledger import Ledger
from gapless.model.trace import Int64

_GROUP_OF = np.array(GROUP_CODE, np.int64)


def account(ledgers: Sequence[Ledger], rows: Sequence[Sequence[int]] | None = None) -> Account:
    """Sum ledgers into one account.

    ``rows`` selects rows of each ledger by position; by default all that are not left out as
    warm-up.
    """
    counted, aside = list[RowAccount](), list[RowAccount]()
    parts = np.zeros(len(LEAVES), np.int64)
    for at, ledger in enumerate(ledgers):
        chosen = sorted(_regular(ledger) if rows is None else rows[at])
        wanted = set(chosen)
        under = _sums(ledger, ledger.group_leaf().astype(np.int64))
        parts += under[chosen].sum(axis=0)
        for number, one in enumerate(_row_accounts(ledger, under)):
            (counted if number in wanted else aside).append(one)
    return total(counted, aside, _by_group(parts))


def total(
    counted: Sequence[RowAccount],
    left_out: Sequence[RowAccount],
    parts: Mapping[str, Mapping[str, int]],
) -> Account:
    """Add the accounts of rows up; every sum is checked here, where it is made."""
    wall = sum(one.row.end - one.row.start for one in counted)
    leaves = _added([one.leaves for one in counted])
    groups = _added([one.groups for one in counted])
    below = sum(sum(group.values()) for group in parts.values())
    if not wall == sum(leaves.values()) == sum(groups.values()) == below:
        msg = f"an account of {wall} ns sums to {sum(leaves.values())} ns over its leaves"
        raise AssertionError(msg)
    stepped = any(one.row.step is not None for one in counted)
    return Account(
        wall_ns=wall,
        steps=len(counted) if stepped else None,
        leaves=leaves,
        groups={group: groups.get(group, 0) for group in GROUPS},
        parts=parts,
        rows=tuple(counted),
        left_out=tuple(left_out),
    )


def _row_accounts(ledger: Ledger, under: Int64) -> list[RowAccount]:
    leaves = _sums(ledger, ledger.leaf.astype(np.int64))
    groups = np.zeros((len(ledger.rows), len(GROUPS)), np.int64)
    np.add.at(groups.T, _GROUP_OF, under.T)
    return [
        RowAccount(row, _named(leaves[at], LEAVES), _named(groups[at], GROUPS))
        for at, row in enumerate(ledger.rows)
    ]


def _sums(ledger: Ledger, leaf: Int64) -> Int64:
    """Sum the lengths of pieces by row and leaf, as integers."""
    shape = (len(ledger.rows), len(LEAVES))
    out = np.zeros(shape[0] * shape[1], np.int64)
    np.add.at(out, ledger.row * shape[1] + leaf, ledger.end - ledger.start)
    return out.reshape(shape)


def _regular(ledger: Ledger) -> list[int]:
    return [at for at, row in enumerate(ledger.rows) if not row.left_out]


def _named(column: Int64, names: Sequence[str]) -> dict[str, int]:
    return {names[code]: int(column[code]) for code in np.flatnonzero(column).tolist()}


def _added(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    out: dict[str, int] = {}
    for part in parts:
        for name, ns in part.items():
            out[name] = out.get(name, 0) + ns
    return out


def _by_group(parts: Int64) -> dict[str, dict[str, int]]:
    out: dict[str, dict[str, int]] = {}
    for code in np.flatnonzero(parts).tolist():
        out.setdefault(GROUPS[GROUP_CODE[code]], {})[LEAVES[code]] = int(parts[code])
    return out
