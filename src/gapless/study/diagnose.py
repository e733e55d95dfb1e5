"""Findings: what the rules say of a run, each with price and line; and what is left to gain."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Final

from gapless.catalogue.loading import percent
from gapless.catalogue.outlook import outlook as near_limit
from gapless.catalogue.rules import RULES
from gapless.catalogue.ruling import Rule
from gapless.model.finding import Abstention, Diagnosis, Finding, Loss, ToTry
from gapless.model.leaf import PRINTED
from gapless.model.seen import Seen
from gapless.study.locate import locate
from gapless.study.price import LEAST_GAIN, Prices
from gapless.study.stakes import LIKELY, odds_of, worth_trying
from gapless.study.trying import is_open, priced, worth_saying

_WORK: Final = ("busy.", "copy.", "comm.", "idle.device.gap", "idle.graph")
_MUCH: Final = 0.1  # of a step: what takes so much of it is named, if no cause is
_BOUND: Final = 0.9  # of a step: above it one group is what limits it
_WORTH: Final = f"{percent(LEAST_GAIN)} of a step"
_UNSTEADY: Final = 0.25  # of the usual step: a window of a few steps may be like none of them
_LIMITS: Final = (
    ("compute-bound", ("busy.", "idle.device.gap", "idle.graph")),
    ("bound by communication", ("comm.",)),
    ("bound by copies", ("copy.",)),
)


def diagnose(prices: Prices, rules: Sequence[Rule] = RULES) -> Diagnosis:
    """Check all rules and price what they say: worth naming, harmless, or not checked."""
    losses, abstentions = said(prices.seen, rules)
    every = [priced(prices, one) for one in losses]
    worth = [one for one in every if worth_saying(one)]
    rest = [one for one in every if not worth_saying(one)]
    tries = worth_trying(prices, rest)
    aside = [one.finding for one in tries]
    return Diagnosis(
        findings=tuple(sorted(worth, key=_value)),
        present=tuple(sorted((one for one in rest if one not in aside), key=_value)),
        abstentions=tuple(abstentions),
        outlook=None if worth else _likely(tries) or outlook(prices, rest, abstentions),
        provisional=prices.provisional,
        rehearsal=prices.player.rehearsal,
        least=LEAST_GAIN,
        to_try=tries,
    )


def said(seen: Seen, rules: Sequence[Rule]) -> tuple[list[Loss], list[Abstention]]:
    """Give what the rules say of a run. A rule that raises anything is a mistake of ours."""
    every = [one for rule in rules for one in rule(seen)]
    losses = [one for one in every if isinstance(one, Loss)]
    located = [replace(one, where=locate(one, seen)) for one in losses]
    return located, [one for one in every if isinstance(one, Abstention)]


def _value(found: Finding) -> tuple[float, float, str]:
    """Order by the low end of the gain; what is not priced comes last."""
    speedup = found.predicted.speedup
    if speedup is None:
        return (0.0, 0.0, found.loss.code)
    return (-speedup.low, -speedup.mid, found.loss.code)


def _likely(tries: Sequence[ToTry]) -> str | None:
    """Say that causes are likely to be worth a line, where none is sure to be."""
    many = sum(one.odds is not None for one in tries)
    if not many:
        return None
    causes = "one is" if many == 1 else f"{many} are"
    return f"no cause is sure to be worth {_WORTH}; {causes} likely to be, and worth a try"


def outlook(
    prices: Prices, rest: Sequence[Finding], abstentions: Sequence[Abstention]
) -> str | None:
    """Say what is left to gain where no cause is worth naming; ``None`` without steps."""
    seen = prices.seen
    if seen.step_ns is None:
        return None
    if unknown := _unsteady(prices) or _promising(rest) or _unpriced(rest):
        return unknown
    for name, leaves in _LIMITS:
        if seen.share(*leaves) >= _BOUND and seen.on_device:
            return f"nothing to gain: {name}, {_limit(seen)}"
    group, share = _largest(seen)
    if group != "compute" and share >= _MUCH:
        return (
            f"no cause was found that is worth {_WORTH}, though "
            f"{PRINTED[group]} takes {percent(share)} of it{_blind(seen, abstentions)}"
        )
    return f"nothing to gain that was looked for: no cause is worth {_WORTH}"


def _unsteady(prices: Prices) -> str | None:
    """Say that steps vary too much to tell what anything is worth."""
    if prices.noise < _UNSTEADY:
        return None
    return (
        f"the steps of this run vary so much (± {percent(prices.noise)}) that what a cause is "
        "worth cannot be told; run it again while nothing else uses the machine"
    )


def _promising(rest: Sequence[Finding]) -> str | None:
    """Name what is likely to be worth it, though not surely, where only a person can change it."""
    by_hand = [
        (one.predicted.speedup.mid, one.loss)
        for one in rest
        if one.predicted.speedup is not None
        and one.loss.no_remedy is not None
        and odds_of(one.predicted.speedup, LEAST_GAIN) >= LIKELY
    ]
    if not by_hand:
        return None
    _, loss = max(by_hand, key=lambda one: one[0])
    place = "" if loss.where is None else f" ({PurePath(loss.where.file).name}:{loss.where.line})"
    return (
        f"no cause is sure to be worth {_WORTH}; {loss.name}{place} is likely to be, and "
        "is to be mended by hand"
    )


def _unpriced(rest: Sequence[Finding]) -> str | None:
    """Say that something was seen which may be worth it, and has no price."""
    many = sum(is_open(one) for one in rest)
    if not many:
        return None
    causes = "a cause was" if many == 1 else f"{many} causes were"
    return f"{causes} seen that could not be priced; no other is worth {_WORTH}"


def _blind(seen: Seen, abstentions: Sequence[Abstention]) -> str:
    """Say how many rules could not be checked, and what they would need of a foreign trace."""
    many = len({one.code for one in abstentions})
    if seen.facts is None and many:
        return f"; {many} rules need a run that gapless recorded"
    rules = "a rule" if many == 1 else f"{many} rules"
    return f"; {rules} could not be checked" if many else ""


def _largest(seen: Seen) -> tuple[str, float]:
    """Give the group that takes most of a step beside computing, and its share."""
    account = seen.account
    groups = {name: ns for name, ns in account.groups.items() if name not in ("compute", "step")}
    most = max(groups, key=lambda name: groups[name], default="compute")
    return most, groups.get(most, 0) / account.wall_ns if account.wall_ns else 0.0


def _limit(seen: Seen) -> str:
    """Say how close a step is to what its device needs for it."""
    share = min(1.0, seen.share(*_WORK))
    waits = (
        f"the device works {percent(share)} of a step; if it never waited, a step would be at "
        f"most {1 / share:.2f}× as fast"
    )
    close = near_limit(seen)
    return waits if close is None else f"{waits}; {close}"
