"""device-prefetcher: batches of a loader that trains come by way of ``parts.DevicePrefetcher``.

Options: ``device`` (the training's current one, if not given) and ``ahead`` (1). The first batch
of all comes as ever: only after it is it known that the loader trains.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any, Callable

from .. import iterations, training
from ..patch import edit_counters, targets


class PrefetcherEdit:
    """The edit, the loaders known to train, and the CUDA streams that copies run on."""

    def __init__(self, number: int, edit: Any) -> None:
        options = edit.get("options") or {}
        self.number, self.target = number, f"{edit['target']}: device prefetcher"
        self.device, self.ahead = options.get("device"), int(options.get("ahead") or 1)
        self.train: Any = weakref.WeakSet()
        self.lanes: dict[Any, Any] = {}

    def prefetching(self, plain: Callable[[], Any]) -> Any:
        """Return an iteration whose batches are copied ahead; as they come, without CUDA."""
        prefetcher = iterations.import_part("device_prefetcher")
        device = prefetcher.cuda_device(self.device)
        if device is None:
            edit_counters.record_refusal(self.number, self.target, "there is no CUDA device")
            return None
        if device not in self.lanes:
            self.lanes[device] = prefetcher.CopyLane(device)
        return prefetcher.PrefetchIterator(_Source(plain), self.lanes[device], self.ahead)

    def record_effect(self) -> None:
        """Record that a batch came by way of the prefetcher."""
        edit_counters.record_effect(self.number, self.target, 0, self.ahead)


class _Source:
    """An iterator over what a function gives."""

    def __init__(self, plain: Callable[[], Any]) -> None:
        self.plain = plain

    def __iter__(self) -> _Source:
        return self

    def __next__(self) -> Any:
        return self.plain()


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it."""
    prefetcher_edit = PrefetcherEdit(number, edit)
    edit_counters.register_edit(number, prefetcher_edit.target)
    undos = [
        training.watch(),
        iterations.replace_iterators(number, edit, functools.partial(_make, prefetcher_edit)),
    ]
    return functools.partial(targets.undo_all, undos)


def _make(edit: PrefetcherEdit, original: Any, switch: targets.Switch) -> Callable[[Any], Any]:
    def get_iterator(loader: Any) -> Any:
        iterator = original(loader)
        begin = functools.partial(_make_next_batch, edit, switch, weakref.ref(loader))
        iterations.feed(iterator, begin)
        return iterator

    return get_iterator


def _make_next_batch(
    edit: PrefetcherEdit, switch: targets.Switch, loader: Any, plain: Callable[[], Any]
) -> Callable[[], Any]:
    """Return the batches of an iteration: prefetched as soon as the loader is known to train."""
    trains, looked = loader() in edit.train, False
    has_given, count = False, training.count()
    iteration: Any = None

    def next_batch() -> Any:
        nonlocal trains, looked, has_given, count, iteration
        trains = trains or (has_given and training.count() > count)
        if trains and switch.on and not looked:
            looked, iteration = True, edit.prefetching(plain)
            if loader() is not None:
                edit.train.add(loader())
        if iteration is None:
            result = plain()
        else:
            iteration.ahead = edit.ahead if switch.on else 0  # what is on its way still comes
            result = next(iteration)
            if switch.on:
                edit.record_effect()
        has_given, count = True, training.count()
        return result

    return next_batch
