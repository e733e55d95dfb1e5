"""Causes that are not sure to be worth it, of which so much hangs that a trial is.

A cause with a price is named if the low end of the gain is worth it. Where the low end is not, but
the gain is likely to be, three to one, what helps without changing results is worth two minutes.

No price can be given where a change cannot be replayed: threads within workers, say, or windows
that do not stand for the run. What the account charges to the leaves that the cause is about is
known all the same, and is the most that can be at stake. It is told as that, and never as a gain.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from math import log
from statistics import NormalDist
from typing import Final

from gapless.catalogue import listing, windowed
from gapless.catalogue.declare import is_nothing
from gapless.catalogue.ruling import NotSeenError
from gapless.model.change import Change, Copied, Delay, Drop, Feed, Hosted, Merge, Omit, Scale
from gapless.model.edit import Applicability
from gapless.model.finding import Finding, Remedy, ToTry
from gapless.model.interval import Interval
from gapless.model.run import LoaderUse
from gapless.model.seen import Seen
from gapless.study.price import LEAST_GAIN, Prices

ASKED: Final = 0.5  # of a step: from there on it is worth a trial that a person has to allow
LIKELY: Final = 0.75  # three to one: a trial that asks for nothing costs minutes
_TAIL: Final = NormalDist().inv_cdf(0.95)  # where the ends of an interval of nine tenths lie
_DONE: Final = (Applicability.SAME, Applicability.EQUIVALENT)
_COPIES: Final = ("copy.h2d", "idle.h2d")
_HOST: Final = ("idle.sync", "idle.host", "idle.launch", "idle.alloc", "idle.h2d", "idle.gc")


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
    share = at_stake(prices.seen, loss.changes)
    remedies = [
        one
        for one in _remedies(prices.seen, loss.helps)
        if share >= (LEAST_GAIN if one.applicability in _DONE and not loss.to_try else ASKED)
    ]
    return ToTry(found, share, tuple(remedies)) if remedies else None


def _likely(prices: Prices, found: Finding, speedup: Interval) -> ToTry | None:
    """Give a cause that is likely to be worth naming, and that something helps against unasked."""
    odds = odds_of(speedup, LEAST_GAIN)
    remedies = [
        one for one in _remedies(prices.seen, found.loss.helps) if one.applicability in _DONE
    ]
    if odds < LIKELY or not remedies:
        return None
    return ToTry(found, at_stake(prices.seen, found.loss.changes), tuple(remedies), odds)


def odds_of(speedup: Interval, least: float) -> float:
    """Give how likely a gain is to be worth ``least`` (a share): 0 to 1.

    Of a log-normal below the middle of the prediction, as wide as its low end says.
    """
    above = log(speedup.mid / (1 + least))
    spread = log(speedup.mid / speedup.low) / _TAIL
    if spread <= 0:
        return 1.0 if above >= 0 else 0.0
    return NormalDist().cdf(above / spread)


def _remedies(seen: Seen, helps: Sequence[str]) -> Iterable[Remedy]:
    """Give the fixes that would change something here, and are not refused."""
    facts = seen.facts
    if facts is None:
        return
    for text in helps:
        for one in listing.propose(text, facts):
            if one.refused is None and not is_nothing(one):
                yield Remedy(text, one.fix, one.edits, one.applicability)
                break


def at_stake(seen: Seen, changes: Sequence[Change]) -> float:
    """Give the share of the step that some changes are about, at most.

    Of leaves what would go of them; of a loader how long it was waited for; of calls, which no leaf
    is named after, how long the host was in them, on a device never more than it waited for.
    """
    leaves = sum(_of_leaves(seen, one) for one in changes)
    calls = sum(_of_calls(seen, one) for one in changes)
    fed = max((_of_loader(seen, one) for one in changes if isinstance(one, Feed)), default=0.0)
    return min(1.0, max(leaves, calls, fed))


def _of_leaves(seen: Seen, change: Change) -> float:
    match change:
        case Drop(leaves=leaves, keep=keep):
            return seen.share(*leaves) * (1 - keep)
        case Hosted(leaves=leaves, factor=factor) | Scale(leaves=leaves, factor=factor):
            return seen.share(*leaves) * max(0.0, 1 - factor.mid) if leaves else 0.0
        case Copied():
            return seen.share(*_COPIES)
        case Feed(intra_op_threads=int(), num_workers=None) if not seen.on_device:
            return seen.share("busy.")  # operators are computed by these threads
        case Omit() | Merge() | Feed() | Delay():
            return 0.0


def _of_calls(seen: Seen, change: Change) -> float:
    keep = change.keep if isinstance(change, Omit) else 0.0
    account = seen.study.account
    if not isinstance(change, Omit | Merge) or not account.steps or not account.wall_ns:
        return 0.0
    spent = 0.0
    with suppress(NotSeenError):
        spent = windowed.calls(seen, *change.names).host_ns * (1 - keep)
    share = spent * account.steps / account.wall_ns
    return min(share, seen.share(*_HOST)) if seen.on_device else share


def _of_loader(seen: Seen, feed: Feed) -> float:
    loaders = seen.facts.loaders if seen.facts is not None else ()
    uses = [use for one in loaders if one.id == feed.loader and (use := seen.use(one)) is not None]
    share = max(((one.share or 0.0) * _concerned(one, feed) for one in uses), default=0.0)
    return min(share, seen.share("idle.data.")) if seen.on_device else share


def _concerned(use: LoaderUse, feed: Feed) -> float:
    """Give the share of a loader's waits that a change is about.

    Threads of workers take processors: they are about what fetches waited for one.
    """
    made = use.workers
    if feed.worker_threads is None or made is None:
        return 1.0
    whole = (made.on_cpu or 0.0) + (made.run_queue or 0.0) + (made.blocked or 0.0)
    return (made.run_queue or 0.0) / whole if whole else 0.0
