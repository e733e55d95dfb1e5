"""Loaders that are switched: a second one over the same data set gives the batches while it is on.

The iterator that the training has stays what it is; its batches come from an iterator of the loader
that is on, and the other one pauses, with what its workers have made. An epoch has as many batches
as ever. A second loader is made when its side is first on; its workers stay until that is decided.
"""

from __future__ import annotations

import copy
import functools
import weakref
from typing import Any

from .. import imports, recorder
from ..overlay import iterations, workers
from ..overlay.patch import edit_counters, targets
from ..overlay.wraps import device_prefetcher, recycled_collate, worker_threads
from ..process_state import keep_fields

LOADER = "torch.utils.data.DataLoader"
NAMES = ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers", "in_order")
THREADS = "worker-threads"
PREFETCHER = "device-prefetcher"
RECYCLED = "recycled-collate"
_CONTEXT = "_DataLoader__multiprocessing_context"
_ALONE = {"prefetch_factor": None, "persistent_workers": False, "timeout": 0, _CONTEXT: None}
_PREFETCH = 2  # torch's own

_LOADER_NAME = "_gapless_loader"
# By loader of the training; the loaders' own ``__iter__``.
_feeding = keep_fields(by_loader=weakref.WeakKeyDictionary(), undos=[], iterate=None)


def is_about_loaders(edit: Any) -> bool:
    """Return whether an edit is one of loaders that a second one can have."""
    if edit["kind"] == "wrap":
        is_of_batches = edit["part"] in (PREFETCHER, RECYCLED) and edit["target"] == LOADER
        return is_of_batches or edit["part"] == THREADS
    return edit["kind"] == "set_argument" and edit["target"] == LOADER and edit["name"] in NAMES


def follow() -> None:
    """Know from now on which loaders the training goes through."""
    forget()

    def watch(module: Any) -> None:
        _feeding.undos.append(targets.replace(module.DataLoader, "__iter__", _wrap_iter))

    imports.when_imported("torch.utils.data.dataloader", watch)


def forget() -> None:
    """Follow loaders no longer."""
    targets.undo_all(_feeding.undos)
    _feeding.by_loader.clear()


def find_depth() -> int:
    """Return how many batches the loaders of the training have made ahead, at most."""
    depths = [_depth(fed.loader()) for fed in list(_feeding.by_loader.values()) if fed.is_open()]
    return max(depths, default=0)


class LoaderEdits:
    """The edits of one side that are about loaders, and its second loaders."""

    def __init__(self, edits: list[tuple[int, Any]]) -> None:
        self.edits = [(number, edit, iterations.EditedLoaders(edit)) for number, edit in edits]
        self.seconds: Any = weakref.WeakKeyDictionary()  # by loader of the training
        for number, _, edited in self.edits:
            if not edited.all:
                edited.track(number, LOADER)

    def apply(self) -> targets.Undo:
        """Let the second loaders feed the training; return what ends that.

        Raises ``ValueError`` where no loader is gone through, or it cannot be had a second time.
        """
        open_loaders = [fed for fed in list(_feeding.by_loader.values()) if fed.is_open()]
        chosen = [(fed, edits) for fed in open_loaders if (edits := self._edits_of(fed.loader()))]
        if not chosen:
            raise ValueError("no loader that it is about feeds the training")
        for fed, edits in chosen:
            loader = fed.loader()
            if loader not in self.seconds:
                self.seconds[loader] = _SecondLoader(loader, edits)
        for fed, _ in chosen:
            fed.switch(self.seconds[fed.loader()])

        def undo() -> None:
            for fed, _ in chosen:
                fed.switch(None)
            for number, _, _ in self.edits:
                edit_counters.record_revert(number)

        return undo

    def _edits_of(self, loader: Any) -> list[tuple[int, Any]]:
        return [(number, edit) for number, edit, edited in self.edits if loader in edited]

    def find_depth(self) -> int:
        """Return how many batches the second loaders make ahead, at most."""
        return max((second.find_depth() for second in self.seconds.values()), default=0)

    def close(self) -> None:
        """End the workers: the side will not be on again."""
        for second in list(self.seconds.values()):
            second.close()


class _SecondLoader:
    """A loader with other settings, and its iterator."""

    def __init__(self, loader: Any, edits: list[tuple[int, Any]]) -> None:
        if hasattr(loader, "state_dict"):
            raise ValueError("the loader keeps its own state")
        self.loader, self.iterator = copy.copy(loader), None
        self.prefetcher: Any = None  # the edit by which batches are copied ahead
        self.copied: Any = None  # those of this epoch
        self.effects: list[tuple[int, str, Any, Any]] = []
        settings = vars(self.loader)
        for number, edit in edits:
            if edit["kind"] == "wrap":
                self._wrap(number, edit)
                continue
            name, value = edit["name"], edit["value"]
            if name not in settings:
                raise ValueError(f"the loader has no {name}")
            self.effects.append((number, f"{edit['target']}.{name}", settings[name], value))
            settings[name] = value
        settings["_iterator"] = None
        if not settings["num_workers"]:
            settings.update(_ALONE)
        elif settings["prefetch_factor"] is None:
            settings["prefetch_factor"] = _PREFETCH
        number = recorder.identify("loader", loader)
        if number is not None:  # its epochs' turns are those of the loader
            recorder.alias("loader", self.loader, number)

    def _wrap(self, number: int, edit: Any) -> None:
        """Copy batches ahead, recycle them, or set workers' threads. Raises ``ValueError``."""
        if edit["part"] == RECYCLED:
            iterations.import_part("recycled_collate").recycle_batches(self.loader)
            target = recycled_collate.name_target(edit)
            self.effects.append((number, target, "new memory", "recycled memory"))
            return
        if edit["part"] == PREFETCHER:
            self.prefetcher = device_prefetcher.PrefetcherEdit(number, edit)
            if self.prefetcher.prefetching(self._next_batch) is None:
                raise ValueError("there is no CUDA device")
            return
        settings, values = vars(self.loader), (number, int(edit["options"]["threads"]))
        users = settings["worker_init_fn"]
        settings["worker_init_fn"] = workers.WorkerInit(users, worker_threads.begin, values)

    def renew(self) -> Any:
        """Begin an epoch; return its iterator."""
        self.end_epoch()
        self.iterator = _feeding.iterate(self.loader)
        return self.iterator

    def next_batch(self) -> Any:
        """Return the next batch. Raises ``StopIteration``."""
        if self.prefetcher is None:
            batch = self._next_batch()
        else:
            if self.copied is None:
                self.copied = self.prefetcher.prefetching(self._next_batch)
            batch = next(self.copied)
            self.prefetcher.record_effect()
        for effect in self.effects:
            edit_counters.record_effect(*effect)
        return batch

    def _next_batch(self) -> Any:
        """Return the next batch as the loader gives it. Raises ``StopIteration``."""
        if self.iterator is None:
            self.iterator = _feeding.iterate(self.loader)
        return type(self.iterator)._next_data(self.iterator)

    def end_epoch(self) -> None:
        """Give no more batches of this epoch: the next one begins another."""
        self.iterator = self.copied = None

    def find_depth(self) -> int:
        """Return how many batches are made ahead, at most."""
        return _depth(self.loader) + (0 if self.prefetcher is None else self.prefetcher.ahead)

    def close(self) -> None:
        """End its workers."""
        end = getattr(self.iterator, "_shutdown_workers", None)
        if end is not None:
            end()
        self.iterator = self.copied = self.loader._iterator = None


class _FedLoader:
    """A loader of the training, the iterator that is gone through, and what feeds that one."""

    def __init__(self, loader: Any) -> None:
        self.loader = weakref.ref(loader)
        self.shell: Any = lambda: None  # the training's iterator, as long as it has it
        self.is_own = True  # the shell is of the loader itself
        self.own: Any = None  # an iterator of the loader, where that is not the shell
        self.second: _SecondLoader | None = None  # that is on
        self.led: Any = weakref.WeakSet()  # shells whose batches come from here

    def is_open(self) -> bool:
        """Return whether the training goes through it."""
        return self.shell() is not None

    def iterate(self, loader: Any) -> Any:
        """Begin an epoch with the loader that is on; return its iterator."""
        self.own = None
        self.is_own = self.second is None
        iterator = _feeding.iterate(loader) if self.second is None else self.second.renew()
        self.shell = weakref.ref(iterator)
        if loader._iterator is not iterator:
            vars(iterator)[_LOADER_NAME] = loader  # made in the head of a loop, nothing else has it
        if self.led or self.second is not None:
            self._lead()
        return iterator

    def switch(self, second: _SecondLoader | None) -> None:
        """Let batches come from a second loader from now on; None: from its own again."""
        self.second = second
        self._lead()

    def _lead(self) -> None:
        shell = self.shell()
        if shell is None or shell in self.led:
            return
        self.led.add(shell)
        length = _length(self.loader())
        vars(shell)["_next_data"] = functools.partial(_next_data, self, self.shell, length)

    def next_batch(self) -> Any:
        """Return the next batch of the loader that is on. Raises ``StopIteration``."""
        if self.second is not None:
            return self.second.next_batch()
        iterator = self.shell() if self.is_own else self.own
        if iterator is None:
            iterator = self.own = _feeding.iterate(self.loader())
        return type(iterator)._next_data(iterator)

    def renew(self) -> None:
        """Begin another epoch of the loader that is on, while that of the shell goes on."""
        if self.second is not None:
            self.second.end_epoch()
        else:
            self.own, self.is_own = None, False


def _next_data(fed: _FedLoader, shell: Any, length: int | None) -> Any:
    """Return the next batch of an iterator whose batches come from elsewhere."""
    if length is not None and shell()._num_yielded >= length:
        raise StopIteration
    try:
        return fed.next_batch()
    except StopIteration:
        if length is None:
            raise
    fed.renew()
    return fed.next_batch()


def _wrap_iter(original: Any, switch: targets.Switch) -> Any:
    _feeding.iterate = original

    @functools.wraps(original)
    def iterate(loader: Any) -> Any:
        if not switch.on:
            return original(loader)
        fed = _feeding.by_loader.get(loader)
        if fed is None:
            fed = _feeding.by_loader[loader] = _FedLoader(loader)
        return fed.iterate(loader)

    return iterate


def _depth(loader: Any) -> int:
    if loader is None or not loader.num_workers:
        return 0
    return loader.num_workers * (loader.prefetch_factor or _PREFETCH)


def _length(loader: Any) -> int | None:
    """Return the batches of an epoch; None where the data set ends as it likes."""
    if loader is None or loader._dataset_kind:  # 0: a map
        return None
    return len(loader)
