"""Windows that are read once more for replay: which of a study's captures, and their columns.

Rules need the study of all ranks before anything can be priced; by then the columns are gone
(``capture``), and are taken from the cache again. Only what is replayed in the time of a report is:
``MAX_EVENTS`` in all. ``gapless open`` of a long foreign trace says so instead.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from gapless.accounting import (
    NO_ARRIVALS,
    Arrivals,
    JoinedTrace,
    gather_collectives,
    join_trace,
    match_collectives,
    partition,
)
from gapless.capture.ranks.ranks import WindowPosition, WindowPositions
from gapless.capture.ranks.summary import CaptureSummary
from gapless.capture.ranks.tasks import load_trace
from gapless.errors import GaplessError
from gapless.model.ledger import Ledger
from gapless.model.trace import Trace
from gapless.store import cache

MAX_EVENTS: Final = 300_000  # of all windows that are replayed
_MAX_WINDOWS: Final = 3
_MIN_STEPS: Final = 1  # its identity, and the un-profiled step, show whether it is replayed truly


class StudiedCapture(Struct, frozen=True):
    """A capture that was studied, and can be read again."""

    path: str
    rank: int | None
    events: int
    steps: int  # counted
    world: int | None = None
    step: str | None = None  # the ranges that the user says are steps
    position: WindowPosition | None = None  # in its run; None: a file of its own


class ReplayWindow(Struct, frozen=True):
    """A window with all that a graph is built of."""

    trace: Trace
    joined: JoinedTrace
    ledger: Ledger
    rank: int | None = None
    arrivals: Arrivals = NO_ARRIVALS  # of the last rank to its collectives
    first_step: int | None = None  # as the run numbers it


def captures(
    summaries: Sequence[CaptureSummary], positions: WindowPositions | None = None
) -> tuple[StudiedCapture, ...]:
    """Return what was studied of the captures that have steps; ``positions`` of those of a run."""
    return tuple(
        StudiedCapture(
            summary.facts.path,
            summary.facts.rank,
            summary.facts.events,
            len(summary.account.rows),
            summary.facts.world,
            summary.facts.step,
            (positions or {}).get(summary.facts.path),
        )
        for summary in summaries
        if summary.account.steps is not None
    )


def choose_captures(candidates: Sequence[StudiedCapture]) -> tuple[StudiedCapture, ...] | str:
    """Return the captures to replay, or why there are none."""
    if not candidates:
        return "there is no window with steps"
    fitting_captures = [capture for capture in candidates if capture.events <= MAX_EVENTS]
    if not fitting_captures:
        min_events = min(capture.events for capture in candidates)
        return f"a window of {min_events:,} events is longer than what is replayed ({MAX_EVENTS:,})"
    stepped_captures = [capture for capture in fitting_captures if capture.steps >= _MIN_STEPS]
    if not stepped_captures:
        return "no window has a whole step"
    selected_captures: list[StudiedCapture] = []
    for capture in sorted(stepped_captures, key=lambda candidate: -candidate.steps)[:_MAX_WINDOWS]:
        if sum(member.events for member in selected_captures) + capture.events <= MAX_EVENTS:
            selected_captures.append(capture)
    return tuple(selected_captures)


def is_of_ranks(candidates: Sequence[StudiedCapture]) -> bool:
    """Return whether several ranks made the steps, even if captures show only one of them."""
    ranks = {capture.rank for capture in candidates}
    return len(ranks) > 1 or any((capture.world or 1) > 1 for capture in candidates)


def choose_joint_captures(
    candidates: Sequence[StudiedCapture],
) -> tuple[tuple[StudiedCapture, ...], ...] | str:
    """Return the windows of several ranks to replay, each with all of its ranks, or why none is."""
    groups = [group for group in _group_captures(candidates) if group]
    n_ranks = max(
        len({capture.rank for capture in candidates}),
        *(capture.world or 1 for capture in candidates),
    )
    complete = [group for group in groups if len(group) == n_ranks]
    if not complete:
        n_most = max(map(len, groups), default=0)
        return (
            f"windows of the same steps show {n_most} of {n_ranks} ranks: how these wait is unknown"
        )
    chosen: list[tuple[StudiedCapture, ...]] = []
    for group in sorted(complete, key=lambda members: -min(member.steps for member in members)):
        n_events = sum(member.events for members in (*chosen, group) for member in members)
        if n_events <= MAX_EVENTS and len(chosen) < _MAX_WINDOWS:
            chosen.append(group)
    if not chosen:
        min_events = min(sum(member.events for member in group) for group in complete)
        return f"{min_events:,} events of all ranks are more than what is replayed ({MAX_EVENTS:,})"
    return tuple(chosen)


def _group_captures(candidates: Sequence[StudiedCapture]) -> list[tuple[StudiedCapture, ...]]:
    """Return captures of the same steps: by their place in the run, else in order of each rank."""
    groups: dict[tuple[str, int], dict[int, StudiedCapture]] = {}
    turns = Counter[int]()
    for capture in candidates:
        if capture.rank is None or capture.steps < _MIN_STEPS:
            continue
        key = ("turn", turns[capture.rank])
        if capture.position is not None:
            key = ("window", capture.position.group)
        turns[capture.rank] += 1
        groups.setdefault(key, {})[capture.rank] = capture
    return [tuple(group[rank] for rank in sorted(group)) for group in groups.values()]


def reread_joint(
    group: Sequence[StudiedCapture], *, cached: bool
) -> tuple[ReplayWindow, ...] | None:
    """Read the windows of all ranks again, with who waited for whom; ``None``: one is gone."""
    try:
        traces = [_load_capture(capture, cached=cached) for capture in group]
    except GaplessError:
        return None
    first_steps = [capture.position and capture.position.first_step for capture in group]
    arrivals_by_rank = match_collectives(
        [
            gather_collectives(trace, first_step)
            for trace, first_step in zip(traces, first_steps, strict=True)
        ]
    )
    windows: list[ReplayWindow] = []
    for capture, trace, arrivals, first_step in zip(
        group, traces, arrivals_by_rank, first_steps, strict=True
    ):
        joined = join_trace(trace)
        ledger = partition(trace, arrivals, joined_trace=joined)
        windows.append(ReplayWindow(trace, joined, ledger, capture.rank, arrivals, first_step))
    return tuple(windows)


def _load_capture(capture: StudiedCapture, *, cached: bool) -> Trace:
    """Return the trace of a capture. Raises ``GaplessError``."""
    key = cache.content_key(capture.path) if cached else None
    return load_trace(capture.path, key, step=capture.step)


def reread_captures(
    studied_captures: Sequence[StudiedCapture], *, cached: bool
) -> tuple[ReplayWindow, ...]:
    """Read captures again; one that is gone meanwhile is left out."""
    windows: list[ReplayWindow] = []
    for capture in studied_captures:
        try:
            trace = _load_capture(capture, cached=cached)
        except GaplessError:
            continue
        joined = join_trace(trace)
        windows.append(ReplayWindow(trace, joined, partition(trace, joined_trace=joined)))
    return tuple(windows)
