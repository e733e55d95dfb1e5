"""Windows that are read once more for replay: which of a study's captures, and their columns.

Rules need the study of all ranks before anything can be priced; by then the columns are gone
(``capture``), and are taken from the cache again. Only what is replayed in the time of a report is:
``MAX_EVENTS`` in all. ``gapless open`` of a long foreign trace says so instead.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from gapless.accounting import JoinedTrace, join_trace, partition
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


class ReplayWindow(Struct, frozen=True):
    """A window with all that a graph is built of."""

    trace: Trace
    joined: JoinedTrace
    ledger: Ledger


def captures(summaries: Sequence[CaptureSummary]) -> tuple[StudiedCapture, ...]:
    """Return what was studied of the captures that have steps."""
    return tuple(
        StudiedCapture(
            summary.facts.path,
            summary.facts.rank,
            summary.facts.events,
            len(summary.account.rows),
            summary.facts.world,
            summary.facts.step,
        )
        for summary in summaries
        if summary.account.steps is not None
    )


def choose_captures(candidates: Sequence[StudiedCapture]) -> tuple[StudiedCapture, ...] | str:
    """Return the captures to replay, or why there are none."""
    if not candidates:
        return "there is no window with steps"
    if len({capture.rank for capture in candidates}) > 1 or any(
        (capture.world or 1) > 1 for capture in candidates
    ):
        return "several ranks: how one waits for another is not replayed"
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


def reread_captures(
    studied_captures: Sequence[StudiedCapture], *, cached: bool
) -> tuple[ReplayWindow, ...]:
    """Read captures again; one that is gone meanwhile is left out."""
    windows: list[ReplayWindow] = []
    for capture in studied_captures:
        try:
            key = cache.content_key(capture.path) if cached else None
            trace = load_trace(capture.path, key, step=capture.step)
        except GaplessError:
            continue
        joined = join_trace(trace)
        windows.append(ReplayWindow(trace, joined, partition(trace, joined_trace=joined)))
    return tuple(windows)
