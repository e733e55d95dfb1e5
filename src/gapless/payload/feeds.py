"""Which loader and worker each of torch's fetchers belongs to."""

from __future__ import annotations

import sys
import weakref
from typing import Any

from . import pacing, recorder

ABSENT = -1
RANDOM_EVERY = 64  # fetches, where the options say nothing

known_feeds: dict[int, Feed] = {}  # by id of the fetcher
_paces: dict[tuple[int, bool], pacing.Pace] = {}


class Feed:
    """What is known of one fetcher: one iteration of one loader in one process."""

    __slots__ = ("fetcher", "iterable", "loader", "pace", "sequence", "worker")

    def __init__(self, fetcher: Any, loader: int, worker: int) -> None:
        self.fetcher = weakref.ref(fetcher)
        self.loader, self.worker = loader, worker
        self.iterable = type(fetcher).__name__.startswith("_Iterable")
        self.sequence = 0
        key = (loader, self.iterable)
        if key not in _paces:
            _paces[key] = pacing.Pace(int(recorder.options().get("random_every", RANDOM_EVERY)))
        self.pace = _paces[key]


def known(fetcher: Any) -> Feed:
    """Give what is known of a fetcher that was not seen before; forget those that are gone."""
    for number, feed in list(known_feeds.items()):
        if feed.fetcher() is None:
            del known_feeds[number]
    found = known_feeds[id(fetcher)] = _feed(fetcher)
    return found


def _feed(fetcher: Any) -> Feed:
    worker = sys.modules.get("torch.utils.data._utils.worker")
    info = getattr(worker, "_worker_info", None)
    if info is not None:
        return Feed(fetcher, recorder.own_loader(), info.id)
    return Feed(fetcher, _own_loader(fetcher), ABSENT)


def _own_loader(fetcher: Any) -> int:
    """Give the loader whose iterator fetches: the frame that called torch's fetcher is its."""
    frame: Any = sys._getframe(1)
    for _ in range(12):
        if frame is None:
            break
        owner = frame.f_locals.get("self") if frame.f_code.co_name == "_next_data" else None
        if getattr(owner, "_dataset_fetcher", None) is fetcher:
            found = recorder.identify("loader", owner)
            return ABSENT if found is None else found
        frame = frame.f_back
    return ABSENT


def forget() -> None:
    """Begin anew in the child of a fork."""
    known_feeds.clear()
    _paces.clear()
