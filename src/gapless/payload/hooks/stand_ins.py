"""Note what stands in for a DataLoader: torch's iterators are given other libraries' loaders, too.

fastai has a ``DataLoader`` of its own, and hands torch's iterators an object with the attributes
that they read. Nothing of torch's ``DataLoader`` is called then: neither ``__init__`` nor
``__iter__``. What their data set's code names says nothing here, as it is the library's.
"""

from __future__ import annotations

import sys
from typing import Any

from ... import wire
from .. import imports, lineage, loaderfacts, patching, places, recorder
from . import loader as loaders

_MODULE = "torch.utils.data.dataloader"


def install() -> None:
    """Watch torch's iterators as they are made."""
    imports.when_imported(_MODULE, _watch)


def _watch(module: Any) -> None:
    for kind in (module._SingleProcessDataLoaderIter, module._MultiProcessingDataLoaderIter):
        patching.replace(kind, "__init__", patching.around("stand-in", _begins, _made))


def _begins(args: tuple, kwargs: dict) -> tuple[int, int] | None:
    """Give the number of a loader that is no DataLoader, and the time; nothing of others."""
    loader = args[1] if len(args) > 1 else kwargs.get("loader")
    if loader is None or isinstance(loader, sys.modules[_MODULE].DataLoader):
        return None
    known = recorder.identify("loader", loader) is not None
    place = None if known else places.users_line()
    number = recorder.fact("loader", loader, loaderfacts.of_stand_in(loader), place)
    if loader.num_workers > 0:
        recorder.begin()
        lineage.creating = number
    return number, recorder.now()


def _made(state: tuple[int, int] | None, args: tuple, _result: Any, raised: Any) -> None:
    if state is None:
        return
    lineage.creating = None
    number, start = state
    if raised is None:
        loaders.know(args[0], number)
    loaders.iterated(number, start, recorder.now(), wire.RAISED if raised else 0)
    recorder.flush_when_due()
