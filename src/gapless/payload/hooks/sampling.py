"""Mark how long samplers take to choose the samples of a batch, on the thread that asks for it.

Of torch's own samplers that is microseconds, as a rule; only what takes long is a mark. It lies in
the ``next`` that asks for a batch, or in the dispatch of another one to a worker.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

from ... import wire
from .. import declare, patching, recorder, tracebacks

LONG_NS = 100_000  # what takes less is no mark


@declare.hook("torch.utils.data.dataloader")
def _watch(module: Any) -> None:
    patching.replace(module._BaseDataLoaderIter, "_next_index", _time_sampler)


def _time_sampler(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``_next_index`` with a mark: for every batch, so what is usual is written out here."""
    hook, now = patching.hook("sampler"), recorder.now

    @functools.wraps(original)
    def next_index(self: Any) -> Any:
        start = now()
        try:
            result = original(self)
        except BaseException as raised:
            tracebacks.strip(raised)
            raise
        end = now()
        if end - start >= LONG_NS:
            hook.call(_note_choice, self, start, end)
        return result

    return next_index


def _note_choice(iterator: Any, start: int, end: int) -> None:
    number = recorder.identify("loader", iterator)
    if number is not None:  # else it is being built, which begins an iteration
        recorder.mark(wire.SAMPLER, start, end, number)
