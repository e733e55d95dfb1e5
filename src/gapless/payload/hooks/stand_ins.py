"""Note what stands in for a DataLoader: torch's iterators are given other libraries' loaders, too.

fastai has a ``DataLoader`` of its own, and hands torch's iterators an object with the attributes
that they read. Nothing of torch's ``DataLoader`` is called then: neither ``__init__`` nor
``__iter__``. What their data set's code names says nothing here, as it is the library's.
"""

from __future__ import annotations

import sys
from typing import Any

from ... import wire
from .. import declare, patching, recorder
from ..loading import loader_facts
from ..log import parentage
from ..stacks import locations
from . import loader as loaders

_MODULE = "torch.utils.data.dataloader"


@declare.hook(_MODULE)
def _watch(module: Any) -> None:
    for kind in (module._SingleProcessDataLoaderIter, module._MultiProcessingDataLoaderIter):
        patching.replace(kind, "__init__", patching.around("stand-in", _before_init, _after_init))


def _before_init(args: tuple, kwargs: dict) -> tuple[int, int] | None:
    """Return the number of a loader that is no DataLoader, and the time; nothing of others."""
    loader = args[1] if len(args) > 1 else kwargs.get("loader")
    if loader is None or isinstance(loader, sys.modules[_MODULE].DataLoader):
        return None
    is_known = recorder.identify("loader", loader) is not None
    location = None if is_known else locations.users_line()
    number = recorder.fact("loader", loader, loader_facts.of_stand_in(loader), location)
    if loader.num_workers > 0:
        recorder.begin()
        parentage.lineage.creating = number
    return number, recorder.now()


def _after_init(state: tuple[int, int] | None, args: tuple, _result: Any, raised: Any) -> None:
    if state is None:
        return
    parentage.lineage.creating = None
    number, start = state
    if raised is None:
        loaders.alias_iterator(args[0], number)
    loaders.count_iteration(number, start, recorder.now(), wire.RAISED if raised else 0)
    recorder.flush_when_due()
