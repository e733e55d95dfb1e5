"""Mark what a training asks of its DataLoaders: iterations, batches, dispatches, pinning."""

from __future__ import annotations

import _thread
import functools
import sys
from typing import Any, Callable

from ... import wire
from .. import declare, imports, patching, recorder, stepping, tracebacks
from ..loading import batch_facts, datasets, loader_facts, padding
from ..log import parentage
from ..process_state import keep
from ..stacks import locations
from . import models

_WINDOWS = f"{imports.__package__}.windows"
_MAX_LOADERS = 64  # loaders whose data set and first batch are looked at
_measure_fullness = patching.guard("how full batches are")(padding.values)


class _Loaders:
    """What was seen of the loaders of this process."""

    def __init__(self) -> None:
        self.iterations: dict[int, int] = {}  # by loader
        # By data set: where the user's code made a loader of it last.
        self.lines: dict[int, locations.CodeLocation] = {}
        self.look_ns = 0  # when windows are seen to again
        self.pinning = _thread._local()  # .depth of pin_memory; .queue that the thread empties
        self.begin()

    def begin(self) -> None:
        """Write again what data sets and first batches are like: another log begins."""
        self.looked: dict[str, set[int]] = {"dataset": set(), "batch": set()}


_loaders = keep(_Loaders())


@declare.hook("torch.utils.data.dataloader")
def _watch(module: Any) -> None:
    _watch_loader(module.DataLoader, module._MultiProcessingDataLoaderIter)
    patching.replace(module._BaseDataLoaderIter, "__next__", _wrap_next)


@declare.hook("torchdata.stateful_dataloader.stateful_dataloader")
def _watch_stateful(module: Any) -> None:
    """Watch torchdata's loader: its iterators are torch's as far as ``__next__`` goes."""
    _watch_loader(module.StatefulDataLoader, module._StatefulMultiProcessingDataLoaderIter)


def _watch_loader(loader: Any, workers: Any) -> None:
    around, replace = patching.around, patching.replace
    replace(loader, "__init__", around("loader", None, _after_init))
    replace(loader, "__iter__", around("iter", _before_iter, _after_iter))
    replace(loader, "_get_iterator", around("iterator", _before_iterator, _after_iterator))
    replace(workers, "_try_put_index", around("dispatch", _before_put, _after_put))
    replace(workers, "_shutdown_workers", around("close", _before_close, _after_close))


@declare.hook("torch.utils.data._utils.pin_memory")
def _watch_pinning(module: Any) -> None:
    around, replace = patching.around, patching.replace
    replace(module, "pin_memory", around("pin", _before_pin, _after_pin))
    replace(module, "_pin_memory_loop", around("pin", _remember_queue, None))


# ── A loader ────────────────────────────────────────────────────────────────────────────────────


def _after_init(_state: Any, args: tuple, _result: Any, raised: Any) -> None:
    if raised is None:
        loader = args[0]
        recorder.fact("loader", loader, loader_facts.values(loader), _line_of(loader))


def _line_of(loader: Any) -> locations.CodeLocation | None:
    """Return the user's line at which a loader that is being made is set.

    Accelerate and Lightning make another of the one they are given, with its settings and a sampler
    of their own: that is the line where the first was made.
    """
    location, data = locations.users_line(), loader.dataset
    number = recorder.identify("data", data)
    if locations.by_library(loader):
        return location if number is None else _loaders.lines.get(number, location)
    if location is not None and type(data).__weakrefoffset__:  # else nothing shows when it is gone
        number = len(_loaders.lines) if number is None else number
        recorder.alias("data", data, number)
        _loaders.lines[number] = location
    return location


def _before_iter(_args: tuple, _kwargs: dict) -> tuple[int, Any]:
    windows = sys.modules.get(_WINDOWS)
    span = None if windows is None else windows.range("gapless:iter")
    if span is not None:
        span.__enter__()
    if models.models.evaluating:
        models.check_modes(recorder.now())
    return recorder.now(), span


def _after_iter(state: tuple[int, Any] | None, args: tuple, result: Any, raised: Any) -> None:
    end, loader = recorder.now(), args[0]
    start, span = state or (None, None)
    if span is not None:
        span.__exit__(None, None, None)
    number = recorder.fact("loader", loader, loader_facts.values(loader))
    if raised is None:
        alias_iterator(result, number)
        if number not in _loaders.looked["dataset"]:
            write_once("dataset", number, datasets.values, loader)
    count_iteration(number, start, end, wire.RAISED if raised else 0)
    recorder.flush_when_due()


def count_iteration(number: int, start: int | None, end: int, flags: int) -> None:
    """Count an iteration of a loader, and mark how long it took to begin."""
    count = _loaders.iterations.get(number, 0)
    _loaders.iterations[number] = count + 1
    if start is not None:
        recorder.mark(wire.ITER, start, end, number, count, flags)


def _before_iterator(args: tuple, _kwargs: dict) -> Any:
    """Let workers that are now started know their loader."""
    loader = args[0]
    number = recorder.identify("loader", loader)
    if number is None:
        number = recorder.fact("loader", loader, loader_facts.values(loader))
    if loader.num_workers > 0:
        recorder.begin()
        parentage.lineage.creating = number
    return number


def _after_iterator(number: int | None, _args: tuple, result: Any, raised: Any) -> None:
    parentage.lineage.creating = None
    if raised is None and number is not None:
        alias_iterator(result, number)


def alias_iterator(iterator: Any, number: int) -> None:
    """Let an iterator, and the queue that its workers fill, go by the id of their loader."""
    recorder.alias("loader", iterator, number)
    queue = getattr(iterator, "_worker_result_queue", None)
    if queue is not None:
        recorder.alias("queue", queue, number)


def write_once(noun: str, number: int, values: Callable[[Any], Any], entity: Any) -> None:
    """Write, once a loader, what its data set or its first batch is like."""
    numbers = _loaders.looked[noun]
    if len(numbers) >= _MAX_LOADERS:
        return
    numbers.add(number)
    facts = patching.guard(f"{noun} facts")(values)(entity)  # or the marks would end with it
    if facts is not None:
        frame = {"noun": noun, "id": number, "file": None, "line": None, "function": None}
        recorder.write(wire.FACT, {**frame, "values": facts})


# ── A batch ─────────────────────────────────────────────────────────────────────────────────────


def _wrap_next(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``__next__`` with a mark. It is for every batch: what is usual is written out here."""
    hook, now = patching.hook("next"), recorder.now

    @functools.wraps(original)
    def next_batch(self: Any) -> Any:
        position, start = getattr(self, "_num_yielded", -1), now()
        try:
            result = original(self)
        except BaseException as raised:
            tracebacks.strip(raised)
            hook.call(_after_next, self, position, start, raised)
            raise
        if hook.on:
            try:
                _after_next(self, position, start, None, result)
            except BaseException as error:
                if hook.failed(error):
                    raise
        return result

    return next_batch


def _after_next(
    iterator: Any, position: int, start: int, raised: BaseException | None, batch: Any = None
) -> None:
    if models.models.evaluating:
        models.check_modes(start)
    end = recorder.now()
    number = recorder.identify("loader", iterator)
    flags = 0
    if raised is not None:
        flags = wire.EXHAUSTED if isinstance(raised, StopIteration) else wire.RAISED
    recorder.mark(wire.NEXT, start, end, wire.NOBODY if number is None else number, position, flags)
    if number is not None and raised is None:
        stepping.note_batch(number, start, end)
        if number not in _loaders.looked["batch"]:
            write_once("batch", number, batch_facts.values, batch)
        _look_at(number, end, batch)
    else:
        recorder.flush_when_due(end)
    if end >= _loaders.look_ns:
        _loaders.look_ns = end + recorder.EVERY_NS
        windows = sys.modules.get(_WINDOWS)
        if windows is not None:
            windows.poll()


def _look_at(number: int, now_ns: int, batch: Any) -> None:
    """Write how full the batch is, if it is one of those that are looked at."""
    windows = sys.modules.get(_WINDOWS)
    window = windows is not None and windows.is_open()
    if not padding.is_look_due(number, now_ns, window=window):
        return
    start = recorder.now()
    if windows is None:
        lengths = _measure_fullness(batch)
    else:
        with windows.range("gapless:look"):
            lengths = _measure_fullness(batch)
    end = recorder.now()
    count = padding.note_look(number, start, end, window=window, has_lengths=bool(lengths))
    recorder.mark(wire.OBSERVER, start, end, value=wire.OBSERVER_FLUSH)
    if lengths:
        values = {"loader": number, "window": window, "ns": now_ns, "lengths": lengths}
        frame = {"noun": "filling", "id": count, "file": None, "line": None, "function": None}
        recorder.write(wire.FACT, {**frame, "values": values})


def _before_put(args: tuple, _kwargs: dict) -> tuple[int, int]:
    return args[0]._send_idx, recorder.now()


def _after_put(state: tuple[int, int] | None, args: tuple, _result: Any, _raised: Any) -> None:
    end, iterator = recorder.now(), args[0]
    if state is None or iterator._send_idx == state[0]:
        return
    position, start = state
    number = recorder.identify("loader", iterator)
    if number is None:  # it is being built, in `_get_iterator`
        number = wire.NOBODY if parentage.lineage.creating is None else parentage.lineage.creating
    worker = iterator._task_info[position][0]
    recorder.mark(wire.DISPATCH, start, end, number, position << 16 | worker)


def _before_close(args: tuple, _kwargs: dict) -> int | None:
    return None if getattr(args[0], "_shutdown", True) else recorder.now()


def _after_close(start: int | None, args: tuple, _result: Any, _raised: Any) -> None:
    if start is None:
        return
    number = recorder.identify("loader", args[0])
    recorder.mark(wire.CLOSE, start, recorder.now(), wire.NOBODY if number is None else number)


# ── Pinning: in a thread of its own, or in next() without workers ───────────────────────────────


def _remember_queue(args: tuple, _kwargs: dict) -> None:
    _loaders.pinning.queue = args[0]


def _before_pin(_args: tuple, _kwargs: dict) -> int | None:
    depth = _loaders.pinning.depth = getattr(_loaders.pinning, "depth", 0) + 1
    return recorder.now() if depth == 1 else None


def _after_pin(start: int | None, _args: tuple, _result: Any, _raised: Any) -> None:
    _loaders.pinning.depth -= 1
    if start is None:
        return
    queue = getattr(_loaders.pinning, "queue", None)
    number = None if queue is None else recorder.identify("queue", queue)
    recorder.mark(wire.PIN, start, recorder.now(), wire.NOBODY if number is None else number)
