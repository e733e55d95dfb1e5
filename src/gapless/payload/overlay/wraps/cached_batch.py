"""cached-batch: a loader that trains repeats its first batch; its workers end.

With the option ``device`` the batch is moved once to the CUDA device of the training: copies cost
nothing, either. An ablation, for trials only: it measures what better loading could give at most.
"""

from __future__ import annotations

import copy
import functools
import sys
import weakref
from typing import Any, Callable

from ... import tracebacks
from .. import iterations, training
from ..patch import edit_counters, targets


class _CachedBatchEdit:
    """The edit, and the loaders that it applies to."""

    def __init__(self, number: int, edit: Any) -> None:
        self.number, self.on = number, True
        self.device = bool((edit.get("options") or {}).get("device"))
        self.target = f"{edit['target']}: cached batch" + (", on the device" if self.device else "")
        self.caches: Any = weakref.WeakKeyDictionary()  # by loader

    def keep(self, cache: _Cache, batch: Any) -> None:
        """Keep a batch to be given again; what cannot be kept is recorded, and loaded as ever."""
        try:
            cache.begin(batch)
        except Exception as error:
            if tracebacks.from_a_signal_handler(error):
                raise
            cache.kept = False
            edit_counters.record_refusal(
                self.number, self.target, f"it cannot be kept: {error!r}"[:300]
            )

    def record_effect(self) -> None:
        """Record that a batch was given again."""
        if self.on:
            edit_counters.record_effect(self.number, self.target, "batches", "the first batch")


class _Cache:
    """What is kept of a loader: its first batch, as it was before the training had it."""

    def __init__(self, length: int | None) -> None:
        self.length = length  # of an epoch; None: it has none
        self.first: Any = None
        self.begun = False  # there is a first batch
        self.kept = True  # so far nothing speaks against it
        self.trains = False
        self.tensors: list[tuple[Any, Any, int | None]] = []  # with their copies and versions

    def begin(self, batch: Any) -> None:
        """Keep a copy of a batch that is about to be handed over. Raises what its objects do."""
        if hasattr(batch, "__next__"):
            raise TypeError("an iterator gives what it has once")
        self.first, self.begun = _convert(batch, _copy_tensor, copy.deepcopy), True

    def settle(self, *, device: bool) -> None:
        """Know that this loader trains: the batch will be given from now on."""
        self.trains = True
        if device and sys.modules["torch"].cuda.is_initialized():
            self.first = _convert(self.first, _move_to_device, _move_to_device)
        _convert(self.first, self._keep, copy.copy)

    def hand(self) -> Any:
        """Return the batch in containers of its own, and as it was if the training changed it."""
        saved = iter(self.tensors)
        batch = _convert(self.first, lambda _tensor: _restore(*next(saved)), copy.copy)
        self.tensors = [(tensor, backup, _version(tensor)) for tensor, backup, _ in self.tensors]
        return batch

    def _keep(self, tensor: Any) -> Any:
        self.tensors.append((tensor, tensor.detach().clone(), _version(tensor)))
        return tensor


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it."""
    cached_edit = _CachedBatchEdit(number, edit)
    edit_counters.register_edit(number, cached_edit.target)
    undos = [
        training.watch(),
        iterations.replace_iterators(number, edit, functools.partial(_make, cached_edit)),
    ]

    def undo() -> None:
        cached_edit.on = False
        targets.undo_all(undos)
        for loader in list(cached_edit.caches):
            if type(loader._iterator) is _iterator_class():
                loader._iterator = None  # a persistent one, that gives the batch again

    return undo


def _make(edit: _CachedBatchEdit, original: Any, switch: targets.Switch) -> Callable[[Any], Any]:
    def get_iterator(loader: Any) -> Any:
        cache = edit.caches.get(loader)
        if cache is None:
            cache = edit.caches[loader] = _Cache(_length(loader))
        if cache.trains:
            return _make_repeating(loader, functools.partial(_give, edit, cache))
        iterator = original(loader)
        end = functools.partial(_end_workers, weakref.ref(iterator), weakref.ref(loader))
        iterations.feed(iterator, functools.partial(_make_next_batch, edit, switch, cache, end))
        return iterator

    return get_iterator


def _make_next_batch(
    edit: _CachedBatchEdit, switch: targets.Switch, cache: _Cache, end: Any, plain: Any
) -> Callable[[], Any]:
    """Return the batches of an iteration: the loader's own until it is known to train."""
    position, count = 0, training.count()
    cache.begun = cache.trains

    def next_batch() -> Any:
        nonlocal position, count
        if cache.begun and not cache.trains and switch.on and training.count() > count:
            cache.settle(device=edit.device)
            end()
        if cache.trains:
            result = _give(edit, cache, position)
        else:
            result = plain()
            if cache.kept and not cache.begun:
                edit.keep(cache, result)
        position, count = position + 1, training.count()
        return result

    return next_batch


def _give(edit: _CachedBatchEdit, cache: _Cache, position: int) -> Any:
    if cache.length is not None and position >= cache.length:
        raise StopIteration
    edit.record_effect()
    return cache.hand()


def _make_repeating(loader: Any, give: Callable[[int], Any]) -> Any:
    """Return an iterator of torch's that loads nothing; batches come from ``give(position)``."""
    iterator = _iterator_class()(loader)
    reference = weakref.ref(iterator)

    def next_batch() -> Any:
        return give(reference()._num_yielded)  # type: ignore[union-attr]

    # torchdata asks the last two
    vars(iterator).update(_next_data=next_batch, _finished=False, state_dict=dict)
    return iterator


def _iterator_class() -> Any:
    """Return the class of torch's that all iterators of loaders are children of."""
    return sys.modules["torch.utils.data.dataloader"]._BaseDataLoaderIter


def _end_workers(iterator: Any, loader: Any) -> None:
    """End the workers of an iteration; one that would go on with the next epoch is let go."""
    iterator, loader = iterator(), loader()
    if loader is not None and loader._iterator is iterator:
        loader._iterator = None
    end = getattr(iterator, "_shutdown_workers", None)
    if end is not None:
        end()


def _length(loader: Any) -> int | None:
    try:
        return len(loader)
    except Exception as error:  # a sampler of the user's, which the training may never ask
        if tracebacks.from_a_signal_handler(error):
            raise
        return None


def _convert(batch: Any, change_tensor: Any, change_object: Any) -> Any:
    return iterations.import_part("batches").convert(batch, change_tensor, change_object)


def _copy_tensor(tensor: Any) -> Any:
    clone = tensor.detach().clone()
    pinned = sys.modules["torch"].cuda.is_initialized() and tensor.is_pinned()
    return clone.pin_memory() if pinned else clone


def _move_to_device(value: Any) -> Any:
    return value.to(f"cuda:{sys.modules['torch'].cuda.current_device()}")


def _version(tensor: Any) -> int | None:
    return None if tensor.is_inference() else tensor._version


def _restore(tensor: Any, backup: Any, version: int | None) -> Any:
    """Return another tensor of the same memory, its values those that were kept."""
    if _version(tensor) != version:
        with sys.modules["torch"].no_grad():
            tensor.copy_(backup)
    return tensor.detach()
