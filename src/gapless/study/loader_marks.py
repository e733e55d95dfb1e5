"""What the run's marks alone tell of a loader whose workers live on, or that has none.

The replay of a loader's queue foretells much that runs side by side: it refuses where workers' own
threads wait for processors, and its intervals are wide where it misses the run. What the training
thread was seen to wait for workers' start, and for each batch, goes whatever the queue does: that
much is the least, however far off replays of queues were elsewhere.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from msgspec import structs

from gapless.catalogue.at_home import kept_alive, without_workers
from gapless.catalogue.loading import loading
from gapless.catalogue.ruling import NotSeenError
from gapless.model.change import Change, Feed, Predicted
from gapless.model.interval import Interval
from gapless.model.seen import Seen

_MOST: Final = 0.98  # of a step: what would leave less is no prediction
_TOLD: Final = 1.02  # a gain from which on marks are asked at all
_NOTE: Final = "by what the run waited for workers: {why}"


def with_marks(seen: Seen, changes: Sequence[Change], found: Predicted) -> Predicted:
    """Give a prediction that is no lower than what the marks tell; theirs where there is none."""
    told = _told(seen, changes)
    if told is None or told.mid < _TOLD:
        return found
    if found.speedup is None:
        note = _NOTE.format(why=found.refused or "nothing is replayed")
        return Predicted(told, "feed", notes=(note,), floor=told.low)
    own = found.speedup
    both = zip((own.low, own.mid, own.high), (told.low, told.mid, told.high), strict=True)
    floor = max(found.floor or told.low, told.low)
    return replace(found, speedup=Interval(*(max(pair) for pair in both)), floor=floor)


def _told(seen: Seen, changes: Sequence[Change]) -> Interval | None:
    """Give the speed-up by marks; ``None``: they do not tell of such changes."""
    feed = changes[0]
    if len(changes) > 1 or not isinstance(feed, Feed) or seen.facts is None:
        return None
    alive, none = Feed(feed.loader, persistent_workers=True), Feed(feed.loader, num_workers=0)
    feed = _without_idle_settings(feed)
    loader = next((one for one in seen.facts.loaders if one.id == feed.loader), None)
    if loader is None or not loader.num_workers or feed not in (alive, none):
        return None
    try:
        one = loading(seen, loader)
        if one is None:
            return None
        gone = kept_alive(one) if feed == alive else without_workers(one, seen.share("busy."))
    except NotSeenError:
        return None
    return Interval(*(1 / (1 - min(_MOST, each)) for each in (gone.low, gone.mid, gone.high)))


def _without_idle_settings(feed: Feed) -> Feed:
    """Leave out what is set of workers where there shall be none: it changes nothing."""
    if feed.num_workers != 0:
        return feed
    return structs.replace(
        feed, prefetch_factor=None, in_order=None, persistent_workers=None, worker_threads=None
    )
