"""A whole step as a bar: its groups as shares."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from gapless.model.account import Account
from gapless.model.leaf import PRINTED
from gapless.report.text.numbers import duration

_MIN_GROUP_SHARE: Final = 0.001  # of a step: a thinner segment of a bar is not seen


class BarPart(Struct, frozen=True):
    """A group in a bar of a whole step."""

    group: str
    name: str
    share: float
    text: str


class BarPair(Struct, frozen=True):
    """Where a step goes before a change and after it; shares are of the longer one."""

    title: str
    before_caption: str
    before: tuple[BarPart, ...]
    after_caption: str
    after: tuple[BarPart, ...]


def bar_parts(groups_ns: Mapping[str, float], whole_ns: float) -> tuple[BarPart, ...]:
    """Return the groups of a step, the largest first, as shares of ``whole_ns``."""
    names = sorted(groups_ns, key=lambda group: -groups_ns[group])
    return tuple(
        BarPart(name, PRINTED[name], groups_ns[name] / whole_ns, duration(groups_ns[name]))
        for name in names
        if whole_ns > 0 and groups_ns[name] / whole_ns >= _MIN_GROUP_SHARE
    )


def step_groups(account: Account | None) -> dict[str, float]:
    """Return the groups of a mean step, in ns; nothing where there is no account."""
    if account is None:
        return {}
    divisor = max(1, len(account.rows) or account.steps or 1)
    return {group: ns / divisor for group, ns in account.groups.items()}


def pair_bars(
    title: str,
    captions: tuple[str, str],
    before_ns: Mapping[str, float],
    after_ns: Mapping[str, float],
) -> BarPair:
    """Lay out two steps to one scale; their lengths are added to the captions."""
    lengths = sum(before_ns.values()), sum(after_ns.values())
    whole_ns = max(lengths)
    return BarPair(
        title,
        f"{captions[0]}, {duration(lengths[0])}",
        bar_parts(before_ns, whole_ns),
        f"{captions[1]}, {duration(lengths[1])}",
        bar_parts(after_ns, whole_ns),
    )
