"""Where the steps of a training process end: the anchor rule, and which steps were profiled."""

from collections.abc import Hashable, Sequence
from pathlib import PurePath
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct, convert
from msgspec.structs import replace

from gapless import wire
from gapless.accounting.intervals import NO_LANE, Lane, empty_column, overlap, union
from gapless.model.recording import Fact, Marks, Process, Window
from gapless.model.trace import Int64
from gapless.recorded.training.edge_calls import (
    Endings,
    busiest_subject,
    count_passes,
    count_values,
    find_endings,
    has_stopped,
    long_step_passes,
    most_frequent,
    rarest_subject,
    select_phases,
    shown_steps,
    slowest_subject,
)
from gapless.recorded.training.stretches import Stretches, find_stretches

_MIN_BLOCK: Final = 10  # steps of a block of the bootstrap, at least
_MIN_NOISE_STEPS: Final = 50  # steps below which no noise is reported
_N_RESAMPLES: Final = 400  # of the bootstrap
_MAX_NAMED_PHASES: Final = 3  # phases that are named
_CALLED_AT: Final = "stepped_at"  # of an optimizer: file and line of its first step
_MAX_RECENT_STEPS: Final = 20_000  # steps that the bootstrap uses at most
Bool = npt.NDArray[np.bool_]


class Edges(Struct, frozen=True):
    """The ends of a process's steps, the thread that steps, and the rule that found them.

    Between two ends lies one step, or more where calls were summed in between.
    """

    ends: Int64
    thread: int | None
    rule: str  # "mark" | "optimizer" | "backward" | "loader" | "forward" | "none"
    anchor: str  # "SGD.step, train.py:41"
    step_counts: Int64  # steps that lie between each end and the next
    count: int  # steps that ended
    summed_lane: Lane  # stretches with steps that were not kept one by one
    first_end: int | None  # when the first one ended, if it was kept
    # What ends the steps of each phase, how many, and when the last one ends; empty for one phase.
    phases: tuple[tuple[str, int, int], ...] = ()
    passes: int | None = None  # that make one step of the optimizer, where they end the steps
    update_ns: int = 0  # and that step's own call, as a rule

    @property
    def is_single(self) -> Bool:
        """Return which stretches between two ends are one step each."""
        return self.step_counts == 1


def fact_of(process: Process, noun: str, number: int) -> Fact | None:
    """Return the fact about an object by its number, ``None`` if none was written."""
    return next((fact for fact in process.facts if fact.noun == noun and fact.id == number), None)


def loader_kind(process: Process, loader: int) -> Hashable:
    """Return what loaders created by one line with the same settings have in common."""
    fact = fact_of(process, "loader", loader)
    if fact is None or fact.file is None:
        return loader
    return fact.file, fact.line, fact.function, repr(sorted(fact.values.items()))


def format_location(file: str | None, line: int | None) -> str:
    """Format a source location briefly: the file's name and the line."""
    if file is None:
        return ""
    name = PurePath(file).name
    return name if line is None else f"{name}:{line}"


def find_edges(process: Process) -> Edges:
    """Find the steps of a process by the first kind of call that is there (``_KINDS``).

    What was called less than five times and then, as far as one can see, no more (steps that are
    part of a CUDA graph) ends none if calls of a later kind went on to come. Where an optimizer's
    steps take seconds and hold several backward passes, those end the steps; where all windows show
    the steps of another optimizer, its steps are those of the training.
    """
    process_stretches = find_stretches(process)
    candidates = [
        (rule, find_endings(process.marks, process_stretches, kind), choose)
        for rule, kind, choose in _RULES
    ]
    passes_of_all = next(calls for rule, calls, _ in candidates if rule == "backward")
    for index, (rule, calls, choose) in enumerate(candidates):
        if not len(calls.end) or has_stopped(
            calls, [later_calls for _, later_calls, _ in candidates[index + 1 :]]
        ):
            continue
        if rule == "optimizer":
            shown = shown_steps(calls, choose(calls), _kept_windows(process))
            if shown is not None:
                return _build_edges(process, process_stretches, shown, rule)
            optimizer_steps = calls.take(calls.subject == choose(calls))
            passes = long_step_passes(optimizer_steps, passes_of_all)
            if passes is not None:
                edges = _build_edges(process, process_stretches, passes, "backward")
                call_ns = optimizer_steps.spent_ns // optimizer_steps.count
                n_passes = count_passes(optimizer_steps, passes)
                return replace(edges, passes=n_passes, update_ns=int(np.median(call_ns)))
        if rule not in {"loader", "forward"}:
            return _build_edges(process, process_stretches, select_phases(calls, choose), rule)
        subjects = _first_alike(process, calls.subject) if rule == "loader" else calls.subject
        merged_calls = replace(calls, subject=subjects)
        if rule == "loader" or int(calls.count.sum()) >= wire.MIN_ENDING_CALLS:
            return _build_edges(
                process,
                process_stretches,
                merged_calls.take(subjects == choose(merged_calls)),
                rule,
            )
    return Edges(
        empty_column(), _only_thread(process.marks), "none", "", empty_column(), 0, NO_LANE, None
    )


def _kept_windows(process: Process) -> Sequence[Window]:
    windows = process.windows
    return [window for window in windows if window.path is not None and window.discarded is None]


def _first_alike(process: Process, loaders: Int64) -> Int64:
    """Map each loader to the first that is like it: those of other epochs are the same."""
    distinct, inverse = np.unique(loaders, return_inverse=True)
    first_by_kind: dict[Hashable, int] = {}
    first_loaders = [
        first_by_kind.setdefault(loader_kind(process, loader), loader)
        for loader in distinct.tolist()
    ]
    return np.array(first_loaders, np.int64)[inverse]


def _build_edges(process: Process, stretches: Stretches, calls: Endings, rule: str) -> Edges:
    thread = most_frequent(calls.thread, calls.count)
    thread_calls = calls.take(calls.thread == thread)
    summed_calls = thread_calls.take(thread_calls.stretch >= 0)
    ends = np.unique(thread_calls.end[thread_calls.stretch < 0])
    named_phases = _name_phases(process, rule, thread_calls)
    anchor = _list_names([anchor for anchor, _, _ in named_phases])
    phases = named_phases if len(named_phases) > 1 else ()
    if not len(summed_calls.end):
        step_counts = np.ones(max(0, len(ends) - 1), np.int64)
        return Edges(
            ends, thread, rule, anchor, step_counts, len(ends), NO_LANE, int(ends[0]), phases
        )
    first_end = int(ends[0]) if len(ends) and ends[0] < summed_calls.end[0] else None
    # Where none was kept at a side of a stretch, the stretch's own bounds are ends.
    count = len(ends) + int(summed_calls.count.sum())
    last_end = (
        summed_calls.end[-1:]
        if not len(ends) or summed_calls.end[-1] > ends[-1]
        else empty_column()
    )
    first_start = empty_column() if len(ends) else stretches.start[summed_calls.stretch[:1]]
    step_counts = np.ones(max(0, len(first_start) + len(ends) + len(last_end) - 1), np.int64)
    step_counts[len(step_counts) - len(last_end) :] = 0
    ends = np.concatenate((first_start, ends, last_end))
    index = np.searchsorted(ends, summed_calls.end) - 1
    np.add.at(step_counts, index[index >= 0], summed_calls.count[index >= 0])
    stretch_rows = np.unique(summed_calls.stretch)
    lane = Lane(stretches.start[stretch_rows], stretches.end[stretch_rows], stretch_rows)
    return Edges(ends, thread, rule, anchor, step_counts, count, lane, first_end, phases)


def _only_thread(marks: Marks) -> int | None:
    """Return the thread that most marks are of, where nothing stepped."""
    is_main = (marks.flags & wire.NOT_MAIN) == 0
    return (
        most_frequent(marks.thread[is_main], np.ones(int(is_main.sum()), np.int64))
        if is_main.any()
        else None
    )


def _name_phases(process: Process, rule: str, calls: Endings) -> tuple[tuple[str, int, int], ...]:
    """Return the name, the steps and the last end of what ends the steps, in order.

    Named by the lines that call it; where these do not tell phases apart, by those that made it.
    """
    subjects, first_calls, counts = count_values(calls.subject, calls.count)
    made_names, called_names = (
        [_anchor_name(process, rule, int(subject), by_call=by_call) for subject in subjects]
        for by_call in (False, True)
    )
    is_told_apart = len(set(called_names)) >= len(set(made_names))
    names = called_names if is_told_apart else made_names
    phases_by_name: dict[str, tuple[str, int, int]] = {}
    order: list[int] = np.argsort(first_calls).tolist()
    for index in order:
        name = names[index]
        last_end = int(calls.end[calls.subject == subjects[index]].max())
        _, count, end = phases_by_name.get(name, (name, 0, last_end))
        phases_by_name[name] = name, count + int(counts[index]), max(end, last_end)
    return tuple(phases_by_name.values())


def _list_names(names: Sequence[str]) -> str:
    n_more = len(names) - _MAX_NAMED_PHASES
    listing = ", then ".join(names[:_MAX_NAMED_PHASES])
    return f"{listing}, then {n_more} more" if n_more > 0 else listing


def _anchor_name(process: Process, rule: str, subject: int, *, by_call: bool) -> str:
    """Return what ends steps with a line: that which calls it, if that is known, or made it."""
    noun, default, template = _ANCHOR_WORDS[rule]
    fact = fact_of(process, noun, subject)
    if fact is None:
        return default
    class_name = str(fact.values.get("class") or default).rpartition(".")[2]
    called_at = fact.values.get(_CALLED_AT) if by_call else None
    made_at = fact.file, fact.line
    place = convert(called_at, tuple[str, int]) if called_at is not None else made_at
    location = format_location(*place)
    label = template.format(class_name)
    return f"{label}, {location}" if location else label


_RULES: Final = (  # rule, calls, and which of several subjects ends steps
    ("mark", wire.USER_STEP, rarest_subject),
    ("optimizer", wire.STEP, rarest_subject),
    ("backward", wire.BACKWARD, rarest_subject),
    ("loader", wire.NEXT, busiest_subject),
    ("forward", wire.FORWARD, slowest_subject),
)
_ANCHOR_WORDS: Final = {  # rule → noun of the fact, its label without a fact, and with one
    "mark": ("site", "gapless.step()", "gapless.step()"),
    "optimizer": ("optimizer", "an optimizer", "{}.step"),
    "backward": ("site", "the backward pass", "the backward pass"),
    "loader": ("loader", "a loader", "hand-overs of {}"),
    "forward": ("module", "the forward pass", "the forward pass of {}"),
}


def unprofiled_steps(process: Process, ends: Int64) -> Bool:
    """Return which steps (the stretches between ends) no profiler touched, ours or the user's."""
    profiled = union(*profiled_spans(process))
    return overlap(profiled, ends[:-1], ends[1:]) == 0


def profiled_spans(process: Process) -> tuple[Int64, Int64]:
    """Return from when to when a profiler was on, or kept what it had seen: ours or the user's."""
    marks = process.marks
    is_ours = (marks.kind == wire.OBSERVER) & (marks.value == wire.OBSERVER_WINDOW)
    is_theirs = marks.kind == wire.USER_PROFILER
    spans = [
        (window.start, window.end + (window.stop_ns or 0) + (window.save_ns or 0))
        for window in process.windows
    ]
    window_spans = np.array(spans, np.int64).reshape(-1, 2)
    rows = np.flatnonzero(is_ours | is_theirs)
    return (
        np.concatenate((window_spans[:, 0], marks.start[rows])),
        np.concatenate((window_spans[:, 1], marks.end[rows])),
    )


def estimate_noise(lengths: Int64, period: int | None) -> float | None:
    """Return the relative half-width of the 90 % interval of the median step, ``None`` below 50.

    A moving-block bootstrap (Künsch 1989) in blocks of ten steps, or of one logging period where
    that is longer: neighbouring steps are alike.
    """
    recent = lengths[-_MAX_RECENT_STEPS:]
    if len(recent) < _MIN_NOISE_STEPS:
        return None
    block = min(max(_MIN_BLOCK, period or 0), len(recent) // 2)
    blocks = -(-len(recent) // block)
    heads = np.random.default_rng(0).integers(0, len(recent) - block + 1, (_N_RESAMPLES, blocks))
    offsets = np.arange(block)
    medians = [
        np.median(recent[(block_heads[:, None] + offsets).ravel()[: len(recent)]])
        for block_heads in heads
    ]
    low, high = np.quantile(medians, (0.05, 0.95))
    median = float(np.median(recent))
    return float(high - low) / 2 / median if median else None


def logging_period(process: Process, edges: Edges) -> int | None:
    """Return how many steps lie between two calls of a logger; ``None``: it was hardly called."""
    marks = process.marks
    indices = np.unique(np.searchsorted(edges.ends, marks.start[marks.kind == wire.LOGGING]))
    steps = np.concatenate(([0], np.cumsum(np.append(edges.step_counts, 1))))[indices]
    gaps = np.diff(indices)[np.diff(indices) == np.diff(steps)]  # others may have been summed
    return int(np.median(gaps)) if len(gaps) else None
