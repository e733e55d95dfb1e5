"""sample-cache: samples that are the same each time come from memory, or from a folder.

The cache is filled before the loader is iterated first, as it is from a second epoch on. It takes
effect with each sample that is given again.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

from .. import cache_filling, iterations
from ..patch import edit_counters, targets

_METHOD = "__getitems__"


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it."""
    target = f"{edit['target']}: kept samples"
    edit_counters.register_edit(number, target)
    folder = (edit.get("options") or {}).get("folder")
    undos: list[targets.Undo] = []
    make = functools.partial(_make, (number, target), folder, undos)
    undos.append(iterations.replace_iterators(number, edit, make))
    return functools.partial(targets.undo_all, undos)


def _make(
    names: tuple[int, str],
    folder: str | None,
    undos: list[targets.Undo],
    original: Any,
    _switch: targets.Switch,
) -> Callable[[Any], Any]:
    caching = iterations.import_part("caches.sample_cache")

    def get_iterator(loader: Any) -> Any:
        obstacle = caching.find_obstacle(loader, folder)
        if obstacle is not None:
            edit_counters.record_refusal(*names, obstacle)
        elif not isinstance(vars(loader.dataset).get(_METHOD), caching.CachedSamples):
            samples = caching.attach_cache(loader, folder)
            undos.append(functools.partial(vars(loader.dataset).pop, _METHOD, None))
            samples.on_refused = functools.partial(edit_counters.record_refusal, *names)
            _fill(names, loader, samples)
        return original(loader)

    return get_iterator


def _fill(names: tuple[int, str], loader: Any, samples: Any) -> None:
    filling = cache_filling.fill_cache(loader, samples.store)
    if not filling.is_whole and not samples.store.is_ended():
        why = f"a trial cannot show it: {filling.n_made} of {filling.samples} samples were made in "
        edit_counters.record_refusal(*names, f"{why}{filling.seconds:.0f} s")
    words = str(filling)
    samples.on_kept = functools.partial(
        edit_counters.record_effect, *names, "made each time", words
    )
