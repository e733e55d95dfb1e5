"""Findings: what the rules say of a run, each with price and line; and what is left to gain."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from gapless.catalogue.rules import RULES
from gapless.catalogue.ruling import Rule
from gapless.model.finding import Abstention, Diagnosis, Finding, Loss, ToTry, Verdict
from gapless.model.seen import Seen
from gapless.study.contested import contested
from gapless.study.doing import stood_outside
from gapless.study.locate import locate
from gapless.study.ordering import in_order
from gapless.study.price import LEAST_GAIN, Prices
from gapless.study.stakes import by_account, worth_trying
from gapless.study.trying import priced, worth_saying
from gapless.study.verdict import COMPUTE, verdict_of


def diagnose(prices: Prices, rules: Sequence[Rule] = RULES) -> Diagnosis:
    """Check all rules and price what they say: worth naming, harmless, or not checked."""
    losses, abstentions = said(prices.seen, rules)
    every = contested([priced(prices, one) for one in losses])
    told = [one if worth_saying(one) else by_account(prices, one) for one in every]
    named = [one.loss for one in told if one is not None]
    worth = [
        one
        for one in told
        if one is not None and not any(one.loss.yields_to(other) for other in named)
    ]
    rest = [one for one in every if not any(one.loss is other.loss for other in worth)]
    tries = worth_trying(prices, rest)
    aside = [one.finding for one in tries]
    findings = in_order(worth, prices.seen)
    likely = [one.finding for one in tries if one.odds is not None]
    why = verdict_of(prices.seen, (*findings, *likely))
    return Diagnosis(
        findings=findings,
        present=tuple(sorted((one for one in rest if one not in aside), key=_value)),
        abstentions=tuple(abstentions),
        outlook=None if findings or why is None else outlook(why, tries, prices.seen, abstentions),
        provisional=prices.provisional,
        rehearsal=prices.player.rehearsal,
        least=LEAST_GAIN,
        to_try=tries,
        verdict=why,
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


def outlook(
    why: Verdict, tries: Sequence[ToTry], seen: Seen, abstentions: Sequence[Abstention]
) -> str:
    """Say why a step takes as long as it does, and that no cause was found that is sure."""
    likely = [one.finding.loss for one in tries if one.odds is not None]
    if likely:
        return f"{why.sentence}; the likeliest cause: {', '.join(map(_named, likely[:1]))}"
    if why.owner == COMPUTE:
        return f"{why.sentence}; nothing was found that makes it slower than it has to be"
    if why.owner == "host" and (places := stood_outside(seen)):
        return f"{why.sentence}{places}"
    return (
        f"{why.sentence}; what could be changed about it was not found{_blind(seen, abstentions)}"
    )


def _named(loss: Loss) -> str:
    where = loss.where
    return loss.name if where is None else f"{loss.name} ({PurePath(where.file).name}:{where.line})"


def _blind(seen: Seen, abstentions: Sequence[Abstention]) -> str:
    """Say how many rules could not be checked, and what they would need of a foreign trace."""
    many = len({one.code for one in abstentions})
    if seen.foreign and many:
        return f" ({many} rules need a run that gapless recorded)"
    rules = "a rule" if many == 1 else f"{many} rules"
    return f" ({rules} could not be checked)" if many else ""
