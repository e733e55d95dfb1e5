"""The account as lines: groups with their largest parts, whole numbers that visibly sum."""

from collections.abc import Mapping
from dataclasses import dataclass

from gapless.model.account import Account
from gapless.model.leaf import GROUPS, PRINTED
from gapless.model.rounding import apportion
from gapless.report.names import short
from gapless.report.numbers import Unit, shares, unit_for

ALWAYS = ("unknown", "observer")  # last, and shown even if there is nothing of them


@dataclass(frozen=True)
class Part:
    """A leaf within a group."""

    name: str
    digits: int  # of the account's unit


@dataclass(frozen=True)
class Line:
    """A group: what is printed of it."""

    group: str
    name: str
    digits: int
    percent: str
    share: float
    parts: tuple[Part, ...]  # largest first


@dataclass(frozen=True)
class Sheet:
    """An account in print: the digits of the lines sum to ``digits``, the percents to 100.0."""

    unit: Unit
    digits: int
    lines: tuple[Line, ...]
    rows: int  # what was divided by: the counted rows, or 1 where there are no steps


def sheet(account: Account) -> Sheet:
    """Lay out an account, the largest group first: a mean step, or the whole capture.

    What is divided by are its rows; an account without rows is already the sum of its steps.
    """
    rows = max(1, len(account.rows) or account.steps) if account.steps is not None else 1
    unit = unit_for(account.wall_ns / rows)
    total = unit.digits(account.wall_ns / rows)
    names = _order(account.groups)
    sizes = [account.groups.get(name, 0) for name in names]
    digits, texts = apportion(sizes, total), shares(sizes)
    shown = [
        at for at, name in enumerate(names) if name in ALWAYS or digits[at] or texts[at] != "0.0"
    ]
    lines = tuple(
        Line(
            group=names[at],
            name=PRINTED[names[at]],
            digits=digits[at],
            percent=texts[at],
            share=sizes[at] / account.wall_ns if account.wall_ns else 0.0,
            parts=_parts(account.parts.get(names[at], {}), digits[at]),
        )
        for at in shown
    )
    return Sheet(unit, total, lines, rows)


def _order(groups: Mapping[str, int]) -> list[str]:
    every = (*GROUPS, *(name for name in groups if name not in GROUPS))
    usual = [name for name in every if name not in ALWAYS and groups.get(name)]
    return [*sorted(usual, key=lambda name: -groups[name]), *ALWAYS]


def _parts(leaves: Mapping[str, int], digits: int) -> tuple[Part, ...]:
    """Give the parts of a group by printed name, as digits that sum to the group's."""
    named: dict[str, int] = {}
    for leaf, ns in leaves.items():
        named[short(leaf)] = named.get(short(leaf), 0) + ns
    order = sorted(named, key=lambda name: -named[name])
    sizes = apportion([named[name] for name in order], digits)
    return tuple(Part(name, size) for name, size in zip(order, sizes, strict=True))
