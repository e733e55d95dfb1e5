"""picture-cache: pixels that Pillow decoded are kept in memory that workers share.

The cache is filled before the loader is iterated first, as it is from a second epoch on. It takes
effect, in each worker, with the first picture whose pixels are there.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import cache_filling, iterations, workers
from ..patch import edit_counters, targets

_MODULE = "caches.picture_cache"


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it."""
    target = f"{edit['target']}: kept pictures"
    edit_counters.register_edit(number, target)
    cache: dict[str, Any] = {}  # the store and what is said of it, once there is a loader
    undos = [
        iterations.before_iterations(
            number, edit, functools.partial(_fill, (number, target), cache)
        ),
        workers.run_in_workers(number, edit, begin, (number, target, cache)),
    ]
    return functools.partial(targets.undo_all, undos)


def begin(number: int, target: str, cache: dict[str, Any]) -> None:
    """Let this worker keep the pixels of what it opens."""
    if "words" not in cache:
        return
    caching = iterations.import_part(_MODULE)
    words = cache["words"]
    caching.on_first_kept.append(
        functools.partial(edit_counters.record_effect, number, target, "decoded each time", words)
    )
    caching.open_cached(cache["store"])


def _fill(names: tuple[int, str], cache: dict[str, Any], loader: Any) -> None:
    if cache or not loader.num_workers:
        return
    caching = iterations.import_part(_MODULE)
    obstacle = caching.find_picture_obstacle(loader)
    if obstacle is not None:
        edit_counters.record_refusal(*names, obstacle)
        return
    store = caching.make_store(loader)
    filling = cache_filling.fill_cache(loader, store, functools.partial(caching.open_cached, store))
    cache.update(store=store, words=str(filling))
    if not filling.is_whole:
        edit_counters.record_refusal(*names, filling.refusal)
