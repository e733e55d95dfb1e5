"""The order of causes: by what each is worth at least, and fixes before wishes.

A bound that only rewriting code reaches and a fix that exists may explain the same wait. Then the
fix stands first, if it is sure to give half of what the rewriting is sure to give.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from gapless.model.change import Change, Drop, Feed, Hosted
from gapless.model.finding import Finding
from gapless.model.seen import Seen
from gapless.study.stakes import remedies_of, value_of

_HALF: Final = 0.5
_WAITS: Final = ("idle.", "comm.")


def in_order(findings: Iterable[Finding], seen: Seen) -> tuple[Finding, ...]:
    """Give causes, the most valuable first."""
    ordered = sorted(findings, key=_rank)
    mended = [one for one in ordered if any(remedies_of(seen, one.loss.helps))]
    found: list[Finding] = []
    for one in ordered:
        if one not in mended:
            found += [fix for fix in mended if fix not in found and _comes_before(fix, one)]
        if one not in found:
            found.append(one)
    return tuple(found)


def _rank(one: Finding) -> tuple[float, float, str]:
    speedup = one.predicted.speedup
    most = one.predicted.at_most
    known = speedup or most
    return (-value_of(one), -(0.0 if known is None else known.mid), one.loss.code)


def _comes_before(fix: Finding, wish: Finding) -> bool:
    """Tell whether a cause that a fix exists for stands before one without any."""
    enough = value_of(fix) - 1 >= _HALF * (value_of(wish) - 1)
    return enough and bool(set(_about(fix.loss.changes)) & set(_about(wish.loss.changes)))


def _about(changes: Iterable[Change]) -> Iterator[object]:
    """Give the waits that changes are about: loaders by number, leaves by name.

    Two causes of computing share a leaf, and no wait: each computes something else.
    """
    for one in changes:
        match one:
            case Feed(loader=loader):
                yield loader
            case Drop(leaves=leaves) | Hosted(leaves=leaves):
                yield from (leaf for leaf in leaves if leaf.startswith(_WAITS))
            case _:
                pass
