"""delay: a known delay in each step, to see whether what is predicted of it holds. For trials only.

Options: ``ns``, and ``place``. "fetch": each batch of a loader takes so much longer to make, off a
processor, in workers or without them. "step": so does the training thread, on a processor, each
time that it has stepped its optimizer. Nothing that is computed changes.
"""

from __future__ import annotations

import functools
import sys
import time
from typing import Any

from ... import recorder
from .. import iterations, workers
from ..patch import edit_counters, targets

FETCH, STEP = "delay of fetches", "delay of steps"
_FETCHERS = ("_MapDatasetFetcher", "_IterableDatasetFetcher")
_LATE_NS = 150_000  # a sleep may end so much later than it was asked to: the rest is waited for


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it."""
    ns = int(edit["options"]["ns"])
    if edit["options"]["place"] == "step":
        return _in_steps(number, ns)
    edit_counters.register_edit(number, FETCH)
    undos = [
        workers.run_in_workers(number, edit, begin, (number, ns)),
        iterations.replace_iterators(number, edit, functools.partial(_make, number, ns)),
    ]
    return functools.partial(targets.undo_all, undos)


def sleep_for(ns: int) -> None:
    """Wait off a processor, to the microsecond."""
    until = time.perf_counter_ns() + ns
    if ns > _LATE_NS:
        time.sleep((ns - _LATE_NS) / 1e9)
    _spin(until)


def spin_for(ns: int) -> None:
    """Keep a processor busy for so long."""
    _spin(time.perf_counter_ns() + ns)


def _spin(until: int) -> None:
    while time.perf_counter_ns() < until:
        pass


def begin(number: int, ns: int) -> None:
    """Delay the fetches of this worker: it ends with its loader, and is no other loader's."""
    module: Any = sys.modules["torch.utils.data._utils.fetch"]
    edit_counters.register_edit(number, FETCH)
    for name in _FETCHERS:
        kind = getattr(module, name)
        kind.fetch = _delay_fetch(number, ns, kind.fetch)


def _delay_fetch(number: int, ns: int, original: Any) -> Any:
    @functools.wraps(original)
    def fetch(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        sleep_for(ns)
        edit_counters.record_effect(number, FETCH, 0, ns)
        return result

    return fetch


def _make(number: int, ns: int, original: Any, switch: targets.Switch) -> Any:
    """Return what makes iterators; those without workers fetch in the training process."""

    def get_iterator(loader: Any) -> Any:
        iterator = original(loader)
        if not loader.num_workers:
            iterations.feed(iterator, functools.partial(_make_next_batch, number, ns, switch))
        return iterator

    return get_iterator


def _make_next_batch(number: int, ns: int, switch: targets.Switch, plain: Any) -> Any:
    def next_batch() -> Any:
        result = plain()
        if switch.on:
            sleep_for(ns)
            edit_counters.record_effect(number, FETCH, 0, ns)
        return result

    return next_batch


def _in_steps(number: int, ns: int) -> targets.Undo:
    switch = targets.Switch()
    edit_counters.register_edit(number, STEP)

    def delay(_number: int, _start: int, _end: int) -> None:
        if switch.on:
            spin_for(ns)
            edit_counters.record_effect(number, STEP, 0, ns)

    recorder.on_edge(delay)

    def undo() -> None:
        switch.on = False
        edit_counters.record_revert(number)

    return undo
