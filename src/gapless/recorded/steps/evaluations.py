"""Evaluations of a training process: when they are, and which waits for data they make.

What an evaluation waits for batches of its own is part of it: without it, those waits go, too. A
loader of the training may be waited for in the same time: a model is often put back into training
mode only once its batch is there.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from gapless import wire
from gapless.accounting.intervals import NO_LANE, Lane, empty_column, union
from gapless.model.trace import Int64
from gapless.recorded.loaders.waits import Waits
from gapless.recorded.training.edges import Bool
from gapless.recorded.training.processes import Training

_MIN_PASS_LENGTH: Final = 4  # batches and steps: fewer are no pass over data, and no training
_MAX_PASS_RATIO: Final = 1.2  # backward passes a step
_WaitColumns = tuple[Int64, Int64, Int64, Bool]  # start, loader, span, first of an iteration


class Evaluating(Struct, frozen=True):
    """Which waits for a loader an evaluation makes for batches of its own."""

    kept: Bool  # of the waits that were kept one by one
    summed: Bool  # of the rows of ``Waits.summed``


class Evaluations(Struct, frozen=True):
    """The evaluations of a training process."""

    spans: Lane  # disjoint and in order
    loaders: tuple[Evaluating, ...]  # as many as there are ``Waits``


def find_evaluations(training: Training, waits: Sequence[Waits]) -> Evaluations:
    """Return when a process evaluates, and which waits are part of it."""
    modes, passes = _mode_spans(training), passes_without_steps(training)
    spans = union(
        np.concatenate((modes.start, passes.start)), np.concatenate((modes.end, passes.end))
    )
    return Evaluations(spans, find_evaluating(training, waits, spans))


def find_evaluating(
    training: Training, waits: Sequence[Waits], spans: Lane
) -> tuple[Evaluating, ...]:
    """Return for each loader which of its waits begin in an evaluation, and are part of it.

    All but those for batches that are trained on next: the last of their span, for a loader that is
    waited for between evaluations, too, or for a single batch after those of others. Many of them
    are a pass over the data of the training, but for one that begins the next; a step that gathers
    gradients may ask for its batches at once, before it trains on any.
    """
    min_length = _MIN_PASS_LENGTH + _count_gathered(training)
    start = np.concatenate([empty_column(), *(loader_waits.start for loader_waits in waits)])
    loader = np.repeat(np.arange(len(waits)), [len(loader_waits.start) for loader_waits in waits])
    is_first = np.concatenate(
        [empty_column() > 0, *(loader_waits.is_first for loader_waits in waits)]
    )
    span = _find_spans(start, start, spans)
    is_between = (span < 0) & _has_begun(start, training)
    feeds = _feeding_loaders(training, waits, spans, loader[is_between])
    is_own = (span >= 0) & ~_is_trained_on((start, loader, span, is_first), feeds, min_length)
    return tuple(
        Evaluating(
            is_own[loader == number],
            _is_summed_within(training, loader_waits, spans)
            & (~feeds[number] | (loader_waits.summed.count >= min_length)),
        )
        for number, loader_waits in enumerate(waits)
    )


def _feeding_loaders(
    training: Training, waits: Sequence[Waits], spans: Lane, loaders_outside: Int64
) -> Bool:
    """Return which loaders are waited for between steps outside of evaluations."""
    feeds = np.bincount(loaders_outside, minlength=len(waits)) > 0
    for number, loader_waits in enumerate(waits):
        feeds[number] |= bool((~_is_summed_within(training, loader_waits, spans)).any())
    return feeds


def _has_begun(start: Int64, training: Training) -> Bool:
    """Return which waits come after the first step: before it, an evaluation is a mere test."""
    ends = training.edges.ends
    return start > (ends[0] if len(ends) else training.end)


def _is_trained_on(waits: _WaitColumns, feeds: Bool, min_length: int) -> Bool:
    """Return which waits within spans are for batches of the next step."""
    start, loader, span, is_first = waits
    order = np.lexsort((start, span))
    span, loader, is_first = span[order], loader[order], is_first[order]
    rows = np.arange(len(order))
    is_same_span = np.append(span[1:] == span[:-1], [False])[: len(rows)]
    is_change = is_same_span & np.append(loader[1:] != loader[:-1], [False])[: len(rows)]
    n_spans = int(span.max(initial=-1)) + 1
    last_change = np.full(n_spans + 1, -1)  # the last place is that of no span
    np.maximum.at(last_change, span[is_change], rows[is_change])
    is_tail = rows > last_change[span]
    tail_lengths = np.bincount(span[is_tail] + 1, minlength=n_spans + 1)
    is_single = (tail_lengths[span + 1] == 1) & (last_change[span] >= 0)
    is_pass = tail_lengths[span + 1] >= min_length
    begins_next = is_first & ~is_same_span
    trained = np.zeros(len(order), bool)
    trained[order] = is_tail & ((feeds[loader] & (~is_pass | begins_next)) | is_single)
    return trained


def _is_summed_within(training: Training, waits: Waits, spans: Lane) -> Bool:
    """Return which of the summed waits lie in a stretch within an evaluation."""
    stretch = waits.summed.stretch
    return _find_spans(training.sums.start[stretch], training.sums.end[stretch], spans) >= 0


def _find_spans(start: Int64, end: Int64, spans: Lane) -> Int64:
    """Return the span in which each piece of time lies, or −1."""
    if not len(spans):
        return np.full(len(start), -1)
    position = np.searchsorted(spans.start, start, side="right") - 1
    is_inside = (position >= 0) & (end <= spans.end[position])
    return np.where(is_inside & (start < spans.end[position]), position, -1)


def _mode_spans(training: Training) -> Lane:
    """Return the spans from a model's eval() to its next train() in which nothing stepped."""
    marks, ends = training.process.marks, training.edges.ends
    rows = np.flatnonzero((marks.kind == wire.MODE) & (marks.thread == training.edges.thread))
    rows = rows[np.lexsort((marks.start[rows], marks.subject[rows]))]
    if not len(rows) or training.edges.rule not in {"optimizer", "backward"}:
        return NO_LANE
    subject, value, start = marks.subject[rows], marks.value[rows], marks.start[rows]
    is_change = np.concatenate(([True], (subject[1:] != subject[:-1]) | (value[1:] != value[:-1])))
    subject, value, start = subject[is_change], value[is_change], start[is_change]
    is_same = np.append(subject[1:] == subject[:-1], [False])
    end_ns = training.end if training.process.end is None else training.process.end
    end = np.where(is_same, np.append(start[1:], 0), end_ns)
    is_idle = np.searchsorted(ends, start, side="right") == np.searchsorted(ends, end)
    # A kept mark of a mode ends a stretch: the steps of one that ends later come after it.
    summed_ends = training.edges.summed_lane.end
    is_idle &= np.searchsorted(summed_ends, start, side="right") == np.searchsorted(
        summed_ends, end
    )
    # A model that never trained (a teacher) evaluates nothing by eval() before training.
    has_begun = start > (ends[0] if len(ends) else training.end)
    is_evaluation = (value == 0) & is_idle & has_begun
    return Lane(start[is_evaluation], end[is_evaluation], np.flatnonzero(is_evaluation))


def passes_without_steps(training: Training) -> Lane:
    """Return the spans in which a whole iteration of a loader lies between two steps.

    Such a pass over data trains nothing, although no model was set to eval mode. But where steps
    consist of several backward passes, or of a whole pass each, it may belong to a step; and where
    there are several optimizers, to another one.
    """
    marks, ends = training.process.marks, training.edges.ends
    if (
        training.edges.rule != "optimizer"
        or len(ends) < _MIN_PASS_LENGTH
        or not _is_single_pass(training)
    ):
        return NO_LANE
    on_thread = marks.thread == training.edges.thread
    spans: list[tuple[int, int]] = []
    for loader in set(marks.subject[(marks.kind == wire.ITER) & on_thread].tolist()):
        is_loader = on_thread & (marks.subject == loader)
        begins = np.sort(marks.start[is_loader & (marks.kind == wire.ITER)])
        is_next = is_loader & (marks.kind == wire.NEXT)
        exhausted_ends = np.sort(marks.end[is_next & ((marks.flags & wire.EXHAUSTED) != 0)])
        positions = np.searchsorted(begins, exhausted_ends, side="right") - 1
        next_starts = np.sort(marks.start[is_next])
        for position, end in zip(positions.tolist(), exhausted_ends.tolist(), strict=True):
            begin = int(begins[position]) if position >= 0 else end
            first, last = np.searchsorted(next_starts, (begin, end)).tolist()
            n_batches = last - first - 1
            is_between = _count_edges(training, begin, end) == 0
            if n_batches >= _MIN_PASS_LENGTH and is_between and ends[0] < begin and end < ends[-1]:
                spans.append((begin, end))
    if not spans or len(spans) * 2 > len(ends):  # in most steps: it is part of a step
        return NO_LANE
    starts = np.array([begin for begin, _ in spans], np.int64)
    return Lane(starts, np.array([end for _, end in spans], np.int64), np.arange(len(spans)))


def _count_edges(training: Training, begin: int, end: int) -> int:
    """Count the steps that end in a span; those of a summed stretch count at its end."""
    count = 0
    for ends in (training.edges.ends, training.edges.summed_lane.end):
        count += int(np.searchsorted(ends, end) - np.searchsorted(ends, begin, side="right"))
    return count


def _is_single_pass(training: Training) -> bool:
    """Return whether there is one optimizer, and one backward pass a step; unknown counts as no."""
    if sum(fact.noun == "optimizer" for fact in training.process.facts) != 1:
        return False
    steps, passes = _count_calls(training)
    return 0 < steps <= _MAX_PASS_RATIO * passes and passes <= _MAX_PASS_RATIO * steps


def _count_gathered(training: Training) -> int:
    """Return how many batches a step asks for beyond the first: those of its backward passes."""
    steps, passes = _count_calls(training)
    return max(0, math.ceil(passes / steps) - 1) if passes > _MAX_PASS_RATIO * steps > 0 else 0


def _count_calls(training: Training) -> tuple[int, int]:
    """Return the steps of optimizers and the backward passes; zeros where they are not known."""
    for fact in training.process.facts:
        steps, passes = fact.values.get("steps"), fact.values.get("passes")
        if fact.noun == "calls" and isinstance(steps, int) and isinstance(passes, int):
            return steps, passes
    return 0, 0
