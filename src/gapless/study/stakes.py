"""Causes without a sure price: those named by what the account charges to them, those to try.

A cause with a price is named if the low end of the gain is worth it. No price can be given where a
change cannot be replayed: threads within workers, say, or windows that do not stand for the run.
What the account charges to the leaves that the cause is about is known all the same, and is the
most that can be at stake. A cause that so much of the step hangs on is named by it, and told as
that, never as a gain. Less of it is worth a trial at most.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import log
from statistics import NormalDist
from typing import Final

from gapless.catalogue import listing
from gapless.catalogue.declare import is_nothing
from gapless.model.edit import Applicability
from gapless.model.finding import Finding, Loss, Remedy, ToTry
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.study.charged import charged
from gapless.study.price import LEAST_GAIN, Prices

ASKED: Final = 0.5  # of a step: from there on it is worth a trial that a person has to allow
NAMED: Final = 0.25  # of a step: a cause that so much is charged to is named without a price
LIKELY: Final = 0.75  # three to one: a trial that asks for nothing costs minutes
RATHER: Final = 0.6  # three to two: likewise, where half of the step is at stake
_VAGUE: Final = 1.15  # the middle of a price from which on a cause is named though it is not sure
# Of what was at stake, so much went in five of six measured trainings (benchmarks/stakes.py).
SURELY_GONE: Final = 0.25
_MOST: Final = 0.98  # of a step: what would leave less is no bound
_OTHERS: Final = ("throttled-device", "shared-device", "taken-processors")  # done to the machine
_TAIL: Final = NormalDist().inv_cdf(0.95)  # where the ends of an interval of nine tenths lie
_DONE: Final = (Applicability.SAME, Applicability.EQUIVALENT)


def by_account(prices: Prices, found: Finding) -> Finding | None:
    """Name a cause by what the account charges to it; ``None``: too little, or it has a price.

    What others do to the machine is no cause of the user's. A price that says that little is gained
    stands, and so does what is known at most.
    """
    loss, predicted = found.loss, found.predicted
    bounded = predicted.at_most is not None or loss.unsure is not None
    if loss.name in _OTHERS or bounded or not _is_open(predicted.speedup):
        return None
    share = charged(prices.seen, loss.changes).own
    remedies = tuple(remedies_of(prices.seen, loss.helps))
    if share < (ASKED if _asks(prices.seen, loss, remedies) else NAMED):
        return None
    return replace(found, share=share, remedies=remedies)


def _is_open(speedup: Interval | None) -> bool:
    """Tell whether a cause has no price, or one whose middle is far above what its low end is."""
    if speedup is None:
        return True
    return speedup.mid >= _VAGUE and odds_of(speedup, LEAST_GAIN) >= LIKELY


def _asks(seen: Seen, loss: Loss, remedies: Sequence[Remedy]) -> bool:
    """Tell whether all that helps against a cause asks for a person's leave, or nothing helps."""
    if loss.to_try:
        return True
    if seen.foreign:
        return not loss.helps and loss.no_remedy is None
    if not remedies:
        return loss.no_remedy is None
    return not any(one.applicability in _DONE for one in remedies)


def value_of(found: Finding) -> float:
    """Give what a cause is worth at least, as a speed-up, to order causes by.

    Of one that is named by its share: what goes of a stake of that size as a rule. Where remedies
    have to be tried, most of them gave nothing (``trying``): such causes stand behind the others.
    """
    speedup, loss = found.predicted.speedup, found.loss
    if loss.to_try:
        return 1.0
    low = 0.0 if speedup is None else speedup.low
    if found.share is None:
        return low
    return max(low, 1 / (1 - SURELY_GONE * min(found.share, _MOST)))


def worth_trying(prices: Prices, found: Iterable[Finding]) -> tuple[ToTry, ...]:
    """Give the causes that are worth a trial: likely ones first, then those with most at stake."""
    every = [one for each in found if (one := _to_try(prices, each)) is not None]
    return tuple(sorted(every, key=_order))


def _order(one: ToTry) -> tuple[float, float, str]:
    """Order by the middle of the gain; what has no price comes behind, by what is at stake."""
    speedup = one.finding.predicted.speedup
    return (0.0 if speedup is None else -speedup.mid, -one.share, one.finding.loss.code)


def _to_try(prices: Prices, found: Finding) -> ToTry | None:
    """Give what is to be tried against a cause; ``None``: little is at stake, or it is unlikely.

    What is known at most of a cause has been judged by that.
    """
    predicted, loss = found.predicted, found.loss
    if predicted.speedup is not None:
        return _likely(prices, found, predicted.speedup)
    if predicted.at_most is not None:
        return None
    share = charged(prices.seen, loss.changes).own
    remedies = [
        one
        for one in remedies_of(prices.seen, loss.helps)
        if share >= (LEAST_GAIN if one.applicability in _DONE and not loss.to_try else ASKED)
    ]
    return ToTry(found, share, tuple(remedies)) if remedies else None


def _likely(prices: Prices, found: Finding, speedup: Interval) -> ToTry | None:
    """Give a cause that is likely to be worth naming, and that something helps against unasked."""
    odds = odds_of(speedup, LEAST_GAIN)
    share = charged(prices.seen, found.loss.changes).own
    remedies = [
        one for one in remedies_of(prices.seen, found.loss.helps) if one.applicability in _DONE
    ]
    if odds < (RATHER if share >= ASKED else LIKELY) or not remedies:
        return None
    return ToTry(found, share, tuple(remedies), odds)


def odds_of(speedup: Interval, least: float) -> float:
    """Give how likely a gain is to be worth ``least`` (a share): 0 to 1.

    Of a log-normal below the middle of the prediction, as wide as its low end says.
    """
    above = log(speedup.mid / (1 + least))
    spread = log(speedup.mid / speedup.low) / _TAIL
    if spread <= 0:
        return 1.0 if above >= 0 else 0.0
    return NormalDist().cdf(above / spread)


def remedies_of(seen: Seen, helps: Sequence[str]) -> Iterator[Remedy]:
    """Give the fixes that would change something here, and are not refused."""
    facts = seen.facts
    if facts is None or seen.foreign:
        return
    for text in helps:
        for one in listing.propose(text, facts):
            if one.refused is None and not is_nothing(one):
                yield Remedy(text, one.fix, one.edits, one.applicability)
                break
