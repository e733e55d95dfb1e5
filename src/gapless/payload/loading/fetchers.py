"""Which loader and worker each of torch's fetchers belongs to."""

from __future__ import annotations

import sys
import weakref
from typing import Any

from .. import recorder
from ..process_state import keep
from . import pacing

ABSENT = -1
RANDOM_EVERY = 64  # fetches, where the options say nothing


class _Feeds:
    """The fetchers of this process, and how often fetches of each loader are looked at."""

    def __init__(self) -> None:
        self.by_fetcher: dict[int, FetcherFeed] = {}  # by its id
        self.paces: dict[tuple[int, bool], pacing.FetchPace] = {}

    def fork(self) -> None:
        """Begin anew in the child of a fork."""
        self.by_fetcher.clear()
        self.paces.clear()


feeds = keep(_Feeds())


class FetcherFeed:
    """What is known of one fetcher: one iteration of one loader in one process."""

    __slots__ = ("fetcher", "iterable", "loader", "pace", "sequence", "worker")

    def __init__(self, fetcher: Any, loader: int, worker: int) -> None:
        self.fetcher = weakref.ref(fetcher)
        self.loader, self.worker = loader, worker
        self.iterable = type(fetcher).__name__.startswith("_Iterable")
        self.sequence = 0
        key = (loader, self.iterable)
        if key not in feeds.paces:
            feeds.paces[key] = pacing.FetchPace(
                int(recorder.options().get("random_every", RANDOM_EVERY))
            )
        self.pace = feeds.paces[key]


def register_fetcher(fetcher: Any) -> FetcherFeed:
    """Return what is known of a fetcher that was not seen before; forget those that are gone."""
    for number, feed in list(feeds.by_fetcher.items()):
        if feed.fetcher() is None:
            del feeds.by_fetcher[number]
    new_feed = feeds.by_fetcher[id(fetcher)] = _make_feed(fetcher)
    return new_feed


def _make_feed(fetcher: Any) -> FetcherFeed:
    worker = sys.modules.get("torch.utils.data._utils.worker")
    info = getattr(worker, "_worker_info", None)
    if info is not None:
        return FetcherFeed(fetcher, recorder.own_loader(), info.id)
    return FetcherFeed(fetcher, _calling_loader(fetcher), ABSENT)


def _calling_loader(fetcher: Any) -> int:
    """Return the loader whose iterator fetches: the frame that called torch's fetcher is its."""
    frame: Any = sys._getframe(1)
    for _ in range(12):
        if frame is None:
            break
        owner = frame.f_locals.get("self") if frame.f_code.co_name == "_next_data" else None
        if getattr(owner, "_dataset_fetcher", None) is fetcher:
            loader = recorder.identify("loader", owner)
            return ABSENT if loader is None else loader
        frame = frame.f_back
    return ABSENT
