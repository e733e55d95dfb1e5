"""file-cache: files of a slow place are copied to a local folder, and opened there.

They are copied before the loader is iterated first, as they are from a second epoch on. It takes
effect, in each worker, with the first file that is opened there.
"""

from __future__ import annotations

import functools
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .. import cache_filling, iterations, workers
from ..patch import edit_counters, targets

_MODULE = "caches.file_cache"
_COPYING_THREADS = 8


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it."""
    target = f"{edit['target']}: kept files"
    edit_counters.register_edit(number, target)
    folder = str((edit.get("options") or {}).get("folder"))
    cache: dict[str, Any] = {}  # the files and what is said of them, once there is a loader
    fill = functools.partial(_fill, (number, target), folder, cache)
    undos = [
        iterations.before_iterations(number, edit, fill),
        workers.run_in_workers(number, edit, begin, (number, target, cache)),
    ]
    return functools.partial(targets.undo_all, undos)


def begin(number: int, target: str, cache: dict[str, Any]) -> None:
    """Let this worker open files where they are kept."""
    if "words" not in cache:
        return
    caching = iterations.import_part(_MODULE)
    caching.on_first_kept.append(
        functools.partial(
            edit_counters.record_effect, number, target, "read each time", cache["words"]
        )
    )
    caching.open_kept(cache["files"])


def _fill(names: tuple[int, str], folder: str, cache: dict[str, Any], loader: Any) -> None:
    if cache:
        return
    caching = iterations.import_part(_MODULE)
    obstacle = caching.find_file_obstacle(loader)
    if obstacle is not None:
        edit_counters.record_refusal(*names, obstacle)
        return
    files = caching.FileCache(caching.find_root(loader.dataset), folder)
    paths = caching.list_files(loader.dataset)
    began = time.monotonic()
    count = _copy_files(files, paths, began + cache_filling.MAX_S)
    words = f"{count} of {len(paths)} files were there in {time.monotonic() - began:.0f} s"
    cache.update(
        files=files,
        words=f"warm: {words} before steps were measured; the first epoch is as slow as ever",
    )
    if count < len(paths):
        edit_counters.record_refusal(*names, f"a trial cannot show it: {words}")


def _copy_files(files: Any, paths: list[Any], deadline: float) -> int:
    """Copy files side by side until then; return of how many there are copies."""

    def copy(path: Any) -> bool:
        return time.monotonic() < deadline and files.find_copy(path) is not None

    with ThreadPoolExecutor(_COPYING_THREADS) as pool:
        return sum(pool.map(copy, paths))
