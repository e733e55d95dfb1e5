"""cached-batch: a loader that trains gives its first batch again and again; its workers end.

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
from .. import iterations, targets, telling, training


class _Edit:
    """The edit, and the loaders that it is laid on."""

    def __init__(self, number: int, edit: Any) -> None:
        self.number, self.on = number, True
        self.device = bool((edit.get("options") or {}).get("device"))
        self.target = f"{edit['target']}: cached batch" + (", on the device" if self.device else "")
        self.caches: Any = weakref.WeakKeyDictionary()  # by loader

    def keep(self, cache: _Cache, batch: Any) -> None:
        """Keep a batch to be given again; what cannot be kept is told, and loaded as ever."""
        try:
            cache.begin(batch)
        except Exception as error:
            if tracebacks.from_a_signal_handler(error):
                raise
            cache.kept = False
            telling.refused(self.number, self.target, f"it cannot be kept: {error!r}"[:300])

    def tell(self) -> None:
        """Tell that a batch was given again."""
        if self.on:
            telling.told(self.number, self.target, "batches", "the first batch")


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
        self.first, self.begun = _converted(batch, _copied, copy.deepcopy), True

    def settle(self, *, device: bool) -> None:
        """Know that this loader trains: the batch will be given from now on."""
        self.trains = True
        if device and sys.modules["torch"].cuda.is_initialized():
            self.first = _converted(self.first, _moved, _moved)
        _converted(self.first, self._keep, copy.copy)

    def hand(self) -> Any:
        """Give the batch in containers of its own, and as it was if the training changed it."""
        found = iter(self.tensors)
        handed = _converted(self.first, lambda _one: _restored(*next(found)), copy.copy)
        self.tensors = [(one, kept, _version(one)) for one, kept, _ in self.tensors]
        return handed

    def _keep(self, tensor: Any) -> Any:
        self.tensors.append((tensor, tensor.detach().clone(), _version(tensor)))
        return tensor


def lay(number: int, edit: Any) -> targets.Undo:
    """Lay an edit; give what takes it off."""
    laid = _Edit(number, edit)
    telling.laid(number, laid.target)
    undos = [training.watch(), iterations.lay(number, edit, functools.partial(_make, laid))]

    def undo() -> None:
        laid.on = False
        targets.undo_all(undos)
        for loader in list(laid.caches):
            if type(loader._iterator) is _iterators():
                loader._iterator = None  # a persistent one, that gives the batch again

    return undo


def _make(edit: _Edit, original: Any, switch: targets.Switch) -> Callable[[Any], Any]:
    def get_iterator(loader: Any) -> Any:
        cache = edit.caches.get(loader)
        if cache is None:
            cache = edit.caches[loader] = _Cache(_length(loader))
        if cache.trains:
            return _again(loader, functools.partial(_give, edit, cache))
        iterator = original(loader)
        end = functools.partial(_end_workers, weakref.ref(iterator), weakref.ref(loader))
        iterations.feed(iterator, functools.partial(_following, edit, switch, cache, end))
        return iterator

    return get_iterator


def _following(
    edit: _Edit, switch: targets.Switch, cache: _Cache, end: Any, plain: Any
) -> Callable[[], Any]:
    """Give the batches of an iteration: the loader's own until it is known to train."""
    given, count = 0, training.count()
    cache.begun = cache.trains

    def following() -> Any:
        nonlocal given, count
        if cache.begun and not cache.trains and switch.on and training.count() > count:
            cache.settle(device=edit.device)
            end()
        if cache.trains:
            result = _give(edit, cache, given)
        else:
            result = plain()
            if cache.kept and not cache.begun:
                edit.keep(cache, result)
        given, count = given + 1, training.count()
        return result

    return following


def _give(edit: _Edit, cache: _Cache, given: int) -> Any:
    if cache.length is not None and given >= cache.length:
        raise StopIteration
    edit.tell()
    return cache.hand()


def _again(loader: Any, give: Callable[[int], Any]) -> Any:
    """Give an iterator of torch's that loads nothing: its batches come from ``give(position)``."""
    iterator = _iterators()(loader)
    reference = weakref.ref(iterator)

    def following() -> Any:
        return give(reference()._num_yielded)  # type: ignore[union-attr]

    # torchdata asks the last two
    vars(iterator).update(_next_data=following, _finished=False, state_dict=dict)
    return iterator


def _iterators() -> Any:
    """Give the class of torch's that all iterators of loaders are children of."""
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


def _converted(batch: Any, tensor: Any, whole: Any) -> Any:
    return iterations.part("batches").convert(batch, tensor, whole)


def _copied(tensor: Any) -> Any:
    made = tensor.detach().clone()
    pinned = sys.modules["torch"].cuda.is_initialized() and tensor.is_pinned()
    return made.pin_memory() if pinned else made


def _moved(thing: Any) -> Any:
    return thing.to(f"cuda:{sys.modules['torch'].cuda.current_device()}")


def _version(tensor: Any) -> int | None:
    return None if tensor.is_inference() else tensor._version


def _restored(tensor: Any, kept: Any, version: int | None) -> Any:
    """Give another tensor of the same memory, its values those that were kept."""
    if _version(tensor) != version:
        with sys.modules["torch"].no_grad():
            tensor.copy_(kept)
    return tensor.detach()
