"""The loaders of a run as facts: their settings, and what was seen of their use."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Final

import numpy as np

from gapless import wire
from gapless.model.edit import Where
from gapless.model.facts import Loader
from gapless.model.recording import Fact
from gapless.study.recorded.batches import Columns, fetched
from gapless.study.recorded.edges import Bool, fact_of, kind_of
from gapless.study.recorded.fillings import filling
from gapless.study.recorded.training import Training
from gapless.study.recorded.values import text, truth, where, whole

_SELDOM: Final = 0.1  # of the steps: what is asked in fewer of them does not feed the training
_NO_BATCH: Final = wire.EXHAUSTED | wire.RAISED
_NOTHING: Final[Mapping[str, object]] = {}


def loaders(training: Training) -> tuple[Loader, ...]:
    """Give the loaders of a process; those that one line made with the same settings are one."""
    kinds: dict[Hashable, list[Fact]] = {}
    for fact in training.process.facts:
        if fact.noun == "loader":
            kinds.setdefault(kind_of(training.process, fact.id), []).append(fact)
    return tuple(_loader(training, alike) for alike in kinds.values())


def _loader(training: Training, alike: Sequence[Fact]) -> Loader:
    fact, numbers = alike[0], [one.id for one in alike]
    told = fact.values
    data, batch = (_first(training, noun, numbers) for noun in ("dataset", "batch"))
    asked = _asked(training, numbers)
    handed = asked & ((training.process.marks.flags & _NO_BATCH) == 0)
    made = _made(training, numbers)
    marks, sums = training.process.marks, training.sums.calls
    summed = [sums.of(wire.NEXT, subject=one) for one in numbers]
    waited = int((marks.end[asked] - marks.start[asked]).sum())
    return Loader(
        id=fact.id,
        where=where(fact),
        batch_size=whole(told.get("batch_size")),
        num_workers=whole(told.get("num_workers")) or 0,
        prefetch_factor=whole(told.get("prefetch_factor")),
        pin_memory=told.get("pin_memory") is True,
        persistent_workers=told.get("persistent_workers") is True,
        in_order=truth(told.get("in_order")),
        shuffle=told.get("shuffle") is True,
        iterable=told.get("iterable") is True,
        dataset=str(told.get("dataset") or "a data set"),
        length=whole(told.get("length")),
        start_method=text(told.get("start_method")) or text(data.get("worker_start")),
        trains=_trains(training, handed),
        iterations=_iterations(training, numbers),
        batches=int(handed.sum()) + sum(int(one.without(_NO_BATCH).count.sum()) for one in summed),
        waited_ns=waited + sum(int(one.total.sum()) for one in summed),
        random=_random(made),
        blocked=_blocked(made),
        batch_bytes=whole(batch.get("bytes")),
        asks_worker_info=truth(data.get("asks_worker_info")),
        cuda_in_dataset=truth(data.get("cuda")),
        picklable=truth(data.get("picklable")),
        pinnable=truth(batch.get("pinnable")),
        filling=filling(training.process, numbers),
        sample=_function(data, "sample"),
        collate=_function(data, "collate"),
        stands_in=text(told.get("stands_in")),
        sampler=_function(data, "sampler"),
    )


def _function(data: Mapping[str, object], noun: str) -> Where | None:
    """Give where a function of the user's begins."""
    file, line = text(data.get(f"{noun}_file")), whole(data.get(f"{noun}_line"))
    if file is None or line is None:
        return None
    return Where(file, line, text(data.get(f"{noun}_function")))


def _first(training: Training, noun: str, numbers: Sequence[int]) -> Mapping[str, object]:
    """Give what is told of the first of some loaders that was looked at."""
    found = (fact_of(training.process, noun, one) for one in numbers)
    return next((one.values for one in found if one is not None), _NOTHING)


def _asked(training: Training, numbers: Sequence[int]) -> Bool:
    marks = training.process.marks
    return (marks.kind == wire.NEXT) & np.isin(marks.subject, numbers)


def _iterations(training: Training, numbers: Sequence[int]) -> int:
    marks, sums = training.process.marks, training.sums.calls
    kept = int(((marks.kind == wire.ITER) & np.isin(marks.subject, numbers)).sum())
    return kept + sum(int(sums.of(wire.ITER, subject=one).count.sum()) for one in numbers)


def _trains(training: Training, handed: Bool) -> bool | None:
    """Tell whether most batches were asked for between training steps; ``None``: none is known.

    Not while a model was told to evaluate, and in a tenth of the steps at least: an evaluation that
    is not told of asks for all of its batches in one.
    """
    marks, ends = training.process.marks, training.edges.ends
    at = marks.start[handed]
    if not len(at) or len(ends) < 2:  # noqa: PLR2004 - no step lies between fewer
        return None
    modes = np.flatnonzero(marks.kind == wire.MODE)
    before = np.searchsorted(marks.start[modes], at, side="right") - 1
    values = np.append(marks.value[modes], [1])  # the last: before any was told, it trains
    evaluates = values[before] == 0
    training_ones = at[~evaluates]
    if 2 * len(training_ones) < len(at):
        return False
    spanned = (training_ones >= ends[0]) & (training_ones < ends[-1])
    steps = np.unique(np.searchsorted(ends, training_ones[spanned], side="right"))
    first = training_ones.min()
    lived = max(1, int((ends[1:] > first).sum()))
    return bool(len(steps) >= _SELDOM * lived)


def _made(training: Training, numbers: Sequence[int]) -> Columns:
    """Give the fetches for some loaders, of the training process and of workers."""
    found = [fetched(training.process, one) for one in numbers]
    found += [
        fetched(worker, worker.loader)
        for worker in training.workers
        if worker.loader is not None and worker.loader in numbers
    ]
    return {name: np.concatenate([one[name] for one in found]) for name in found[0]}


def _random(made: Columns) -> bool | None:
    if made["random"].any():
        return True
    return False if made["looked"].any() else None


def _blocked(made: Columns) -> float | None:
    """Give the share of fetches in which they neither ran nor waited for a processor."""
    rows = (made["cpu"] >= 0) & (made["run_queue"] >= 0) & (made["wall"] > 0)
    wall = int(made["wall"][rows].sum())
    if not wall:
        return None
    ran = int((made["cpu"] + made["run_queue"])[rows].sum())
    return max(0.0, 1 - ran / wall)
