"""Do something in each worker of a loader, as it begins: after the user's ``worker_init_fn``."""

from __future__ import annotations

import functools
from typing import Any, Callable

from . import iterations
from .patch import targets

_ITERATORS = (
    ("torch.utils.data.DataLoader", "torch.utils.data.dataloader._MultiProcessingDataLoaderIter"),
    (
        "torchdata.stateful_dataloader.StatefulDataLoader",
        "torchdata.stateful_dataloader.stateful_dataloader._StatefulMultiProcessingDataLoaderIter",
    ),
)


class WorkerInit:
    """A ``worker_init_fn`` after which something else is done. Spawned workers get it pickled."""

    def __init__(self, users: Any, act: Callable[..., None], values: tuple[Any, ...]) -> None:
        self.users, self.act, self.values = users, act, values

    def __call__(self, worker: int) -> None:
        """Begin a worker."""
        if self.users is not None:
            self.users(worker)
        self.act(*self.values)


def run_in_workers(
    number: int, edit: Any, act: Callable[..., None], values: tuple[Any, ...]
) -> targets.Undo:
    """Call ``act(*values)`` in each worker that begins; return what ends that.

    The act is a function of a module, the values can be pickled. Torch seeds workers before it.
    """
    edited_loaders = iterations.EditedLoaders(edit)
    undos: list[targets.Undo] = []

    def wrap_init(original: Any, switch: targets.Switch) -> Any:
        @functools.wraps(original)
        def begin(iterator: Any, loader: Any, *args: Any, **kwargs: Any) -> Any:
            if not switch.on or loader not in edited_loaders:
                return original(iterator, loader, *args, **kwargs)
            users = loader.worker_init_fn
            loader.worker_init_fn = WorkerInit(users, act, values)
            try:
                return original(iterator, loader, *args, **kwargs)
            finally:
                loader.worker_init_fn = users

        return begin

    def replace(owner: Any, name: str) -> targets.Undo:
        return targets.replace(getattr(owner, name), "__init__", wrap_init)

    for loader, iterator in _ITERATORS:
        if not edited_loaders.all:
            undos.append(edited_loaders.track(number, loader))
        undos.append(targets.on_target(number, iterator, replace))
    return functools.partial(targets.undo_all, undos)
