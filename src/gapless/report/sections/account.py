"""The account as lines: groups with their largest parts, whole numbers that visibly sum."""

from collections.abc import Mapping

from msgspec import Struct

from gapless.model.account import Account
from gapless.model.leaf import GROUPS, PRINTED
from gapless.model.rounding import apportion
from gapless.report.text.names import short_name
from gapless.report.text.numbers import Unit, shares, unit_for

ALWAYS = ("unknown", "observer")  # last, and shown even if they are empty


class LeafPart(Struct, frozen=True):
    """A leaf within a group."""

    name: str
    digits: int  # of the account's unit


class GroupLine(Struct, frozen=True):
    """A group, as it is printed."""

    group: str
    name: str
    digits: int
    percent: str
    share: float
    parts: tuple[LeafPart, ...]  # largest first


class AccountSheet(Struct, frozen=True):
    """An account in print: the digits of the lines sum to ``digits``, the percents to 100.0."""

    unit: Unit
    digits: int
    lines: tuple[GroupLine, ...]
    rows: int  # what was divided by: the counted rows, or 1 where there are no steps


def account_sheet(account: Account) -> AccountSheet:
    """Lay out an account, the largest group first: a mean step, or the whole capture."""
    rows = account.divisor()
    unit = unit_for(account.wall_ns / rows)
    total = unit.digits(account.wall_ns / rows)
    names = _order_groups(account.groups)
    sizes = [account.groups.get(name, 0) for name in names]
    digits, texts = apportion(sizes, total), shares(sizes)
    shown_indices = [
        index
        for index, name in enumerate(names)
        if name in ALWAYS or digits[index] or texts[index] != "0.0"
    ]
    lines = tuple(
        GroupLine(
            group=names[index],
            name=PRINTED[names[index]],
            digits=digits[index],
            percent=texts[index],
            share=sizes[index] / account.wall_ns if account.wall_ns else 0.0,
            parts=_leaf_parts(account.parts.get(names[index], {}), digits[index]),
        )
        for index in shown_indices
    )
    return AccountSheet(unit, total, lines, rows)


def _order_groups(groups: Mapping[str, int]) -> list[str]:
    names = (*GROUPS, *(name for name in groups if name not in GROUPS))
    usual = [name for name in names if name not in ALWAYS and groups.get(name)]
    return [*sorted(usual, key=lambda name: -groups[name]), *ALWAYS]


def _leaf_parts(leaves: Mapping[str, int], digits: int) -> tuple[LeafPart, ...]:
    """Return the parts of a group by printed name, as digits that sum to the group's."""
    sizes_by_name: dict[str, int] = {}
    for leaf, ns in leaves.items():
        sizes_by_name[short_name(leaf)] = sizes_by_name.get(short_name(leaf), 0) + ns
    names = sorted(sizes_by_name, key=lambda name: -sizes_by_name[name])
    sizes = apportion([sizes_by_name[name] for name in names], digits)
    return tuple(
        LeafPart(name, digits_of_part) for name, digits_of_part in zip(names, sizes, strict=True)
    )
