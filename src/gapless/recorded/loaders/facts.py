"""The loaders of a run as facts: their settings, and what was seen of their use."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Final, cast

import numpy as np

from gapless import wire
from gapless.model.edit import Location
from gapless.model.facts import Loader
from gapless.model.recording import Fact
from gapless.recorded.loaders.batches import Columns, gather_fetches
from gapless.recorded.loaders.padding import measure_filling
from gapless.recorded.training.edges import Bool, fact_of, loader_kind
from gapless.recorded.training.processes import Training
from gapless.recorded.values import as_bool, as_int, as_text, source_location

# of the steps: a loader asked in fewer of them does not feed the training
_MIN_STEP_SHARE: Final = 0.1
_NO_BATCH: Final = wire.EXHAUSTED | wire.RAISED
_NO_VALUES: Final[Mapping[str, object]] = {}


def loaders(training: Training) -> tuple[Loader, ...]:
    """Return the loaders of a process; those created by one line with the same settings are one."""
    kinds: dict[Hashable, list[Fact]] = {}
    for fact in training.process.facts:
        if fact.noun == "loader":
            kinds.setdefault(loader_kind(training.process, fact.id), []).append(fact)
    return tuple(_build_loader(training, kind_facts) for kind_facts in kinds.values())


def _build_loader(training: Training, facts: Sequence[Fact]) -> Loader:
    fact, numbers = facts[0], [loader_fact.id for loader_fact in facts]
    settings = fact.values
    data, batch = (_first_values(training, noun, numbers) for noun in ("dataset", "batch"))
    is_next = _is_next_call(training, numbers)
    is_hand_over = is_next & ((training.process.marks.flags & _NO_BATCH) == 0)
    fetches = gather_fetches(training, numbers)
    marks, sums = training.process.marks, training.sums.calls
    summed_calls = [sums.select(wire.NEXT, subject=number) for number in numbers]
    waited_ns = int((marks.end[is_next] - marks.start[is_next]).sum())
    return Loader(
        id=fact.id,
        location=source_location(fact),
        batch_size=as_int(settings.get("batch_size")),
        num_workers=as_int(settings.get("num_workers")) or 0,
        prefetch_factor=as_int(settings.get("prefetch_factor")),
        pin_memory=settings.get("pin_memory") is True,
        persistent_workers=settings.get("persistent_workers") is True,
        in_order=as_bool(settings.get("in_order")),
        shuffle=settings.get("shuffle") is True,
        iterable=settings.get("iterable") is True,
        dataset=str(settings.get("dataset") or "a data set"),
        length=as_int(settings.get("length")),
        start_method=as_text(settings.get("start_method")) or as_text(data.get("worker_start")),
        trains=_is_for_training(training, is_hand_over),
        iterations=_count_iterations(training, numbers),
        batches=int(is_hand_over.sum())
        + sum(int(calls.without(_NO_BATCH).count.sum()) for calls in summed_calls),
        waited_ns=waited_ns + sum(int(calls.total.sum()) for calls in summed_calls),
        random=_is_random(fetches),
        blocked=_blocked_share(fetches),
        batch_bytes=as_int(batch.get("bytes")),
        asks_worker_info=as_bool(data.get("asks_worker_info")),
        cuda_in_dataset=as_bool(data.get("cuda")),
        picklable=as_bool(data.get("picklable")),
        pinnable=as_bool(batch.get("pinnable")),
        padding=measure_filling(training.process, numbers),
        sample=_function_location(data, "sample"),
        collate=_function_location(data, "collate"),
        stands_in=as_text(settings.get("stands_in")),
        sampler=_function_location(data, "sampler"),
        collate_name=as_text(settings.get("collate")),
        pipeline=_names(data, "pipeline") or None,
        to_floats=as_int(data.get("to_floats")) or 0,
        by_hand=as_bool(data.get("by_hand")),
        resizes=data.get("resizes") is True,
        texts=as_text(data.get("texts")),
        files=as_text(data.get("files")),
        decoders=_names(data, "decoders"),
        byte_pictures=batch.get("byte_pictures") is True,
    )


def _names(data: Mapping[str, object], noun: str) -> tuple[str, ...] | None:
    """Return a list of names that is known of a data set; ``None``: there is none."""
    names = data.get(noun)
    if not isinstance(names, list):
        return None
    return tuple(str(name) for name in cast("list[object]", names))


def _function_location(data: Mapping[str, object], noun: str) -> Location | None:
    """Return where a function of the user's begins."""
    file, line = as_text(data.get(f"{noun}_file")), as_int(data.get(f"{noun}_line"))
    if file is None or line is None:
        return None
    return Location(file, line, as_text(data.get(f"{noun}_function")))


def _first_values(training: Training, noun: str, numbers: Sequence[int]) -> Mapping[str, object]:
    """Return the recorded values of the first loader that has any."""
    facts = (fact_of(training.process, noun, number) for number in numbers)
    return next((fact.values for fact in facts if fact is not None), _NO_VALUES)


def _is_next_call(training: Training, numbers: Sequence[int]) -> Bool:
    marks = training.process.marks
    return (marks.kind == wire.NEXT) & np.isin(marks.subject, numbers)


def _count_iterations(training: Training, numbers: Sequence[int]) -> int:
    marks, sums = training.process.marks, training.sums.calls
    recorded_count = int(((marks.kind == wire.ITER) & np.isin(marks.subject, numbers)).sum())
    return recorded_count + sum(
        int(sums.select(wire.ITER, subject=number).count.sum()) for number in numbers
    )


def _is_for_training(training: Training, is_hand_over: Bool) -> bool | None:
    """Return whether most batches were requested between training steps; ``None``: none is known.

    Not while a model was in eval mode, and in at least a tenth of the steps: an evaluation that
    leaves the mode alone requests all of its batches in one.
    """
    marks, ends = training.process.marks, training.edges.ends
    times = marks.start[is_hand_over]
    if not len(times) or len(ends) < 2:  # noqa: PLR2004 - no step lies between fewer
        return None
    mode_rows = np.flatnonzero(marks.kind == wire.MODE)
    mode_index = np.searchsorted(marks.start[mode_rows], times, side="right") - 1
    mode_values = np.append(
        marks.value[mode_rows], [1]
    )  # the last: before any mode was set, it trains
    evaluates = mode_values[mode_index] == 0
    training_times = times[~evaluates]
    if 2 * len(training_times) < len(times):
        return False
    is_between = (training_times >= ends[0]) & (training_times < ends[-1])
    steps = np.unique(np.searchsorted(ends, training_times[is_between], side="right"))
    first_ns = training_times.min()
    n_steps = max(1, int((ends[1:] > first_ns).sum()))
    return bool(len(steps) >= _MIN_STEP_SHARE * n_steps)


def _is_random(fetches: Columns) -> bool | None:
    if fetches["random"].any():
        return True
    return False if fetches["looked"].any() else None


def _blocked_share(fetches: Columns) -> float | None:
    """Return the share of fetches in which they neither ran nor waited for a processor."""
    rows = (fetches["cpu"] >= 0) & (fetches["run_queue"] >= 0) & (fetches["wall"] > 0)
    wall_ns = int(fetches["wall"][rows].sum())
    if not wall_ns:
        return None
    on_cpu_ns = int((fetches["cpu"] + fetches["run_queue"])[rows].sum())
    return max(0.0, 1 - on_cpu_ns / wall_ns)
