"""sample-cache: samples that are the same each time come from memory, or from a folder.

The cache is filled before the loader is iterated first, as it is from a second epoch on. It takes
effect with each sample that is given again.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import cache_filling, iterations
from ..patch import edit_counters, targets

_METHOD = "__getitems__"


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it."""
    target = f"{edit['target']}: kept samples"
    edit_counters.register_edit(number, target)
    folder = (edit.get("options") or {}).get("folder")
    attach = functools.partial(_attach, (number, target), folder)
    return iterations.before_iterations(number, edit, attach)


def _attach(names: tuple[int, str], folder: str | None, loader: Any) -> targets.Undo | None:
    caching = iterations.import_part("caches.sample_cache")
    obstacle = caching.find_obstacle(loader, folder)
    if obstacle is not None:
        edit_counters.record_refusal(*names, obstacle)
        return None
    if isinstance(vars(loader.dataset).get(_METHOD), caching.CachedSamples):
        return None
    samples = caching.attach_cache(loader, folder)
    samples.on_refused = functools.partial(edit_counters.record_refusal, *names)
    _fill(names, loader, samples)
    return functools.partial(vars(loader.dataset).pop, _METHOD, None)


def _fill(names: tuple[int, str], loader: Any, samples: Any) -> None:
    filling = cache_filling.fill_cache(loader, samples.store)
    if not filling.is_whole and not samples.store.is_ended():
        edit_counters.record_refusal(*names, filling.refusal)
    words = str(filling)
    samples.on_kept = functools.partial(
        edit_counters.record_effect, *names, "made each time", words
    )
