"""Windows that are read once more for replay: which of a study's captures, and their columns.

Rules need the study of all ranks before anything can be priced; by then the columns are gone
(``capture``), and are taken from the cache again. Only what is replayed in the time of a report is:
``MOST_EVENTS`` in all. ``gapless open`` of a long foreign trace says so instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gapless.accounting import Joined, join, partition
from gapless.errors import GaplessError
from gapless.model.ledger import Ledger
from gapless.model.trace import Trace
from gapless.store import cache
from gapless.study.part import Part
from gapless.study.tasks import capture_of

MOST_EVENTS: Final = 300_000  # of all windows that are replayed
_MOST_WINDOWS: Final = 3
_FEWEST_STEPS: Final = 1  # whether it is played truly, its identity tells, and the un-profiled step


@dataclass(frozen=True)
class Capture:
    """A capture that was studied, and can be read again."""

    path: str
    rank: int | None
    events: int
    steps: int  # counted
    world: int | None = None


@dataclass(frozen=True)
class Window:
    """A window with all that a graph is built of."""

    trace: Trace
    joined: Joined
    ledger: Ledger


def captures(parts: Sequence[Part]) -> tuple[Capture, ...]:
    """Give what was studied of some captures that have steps."""
    return tuple(
        Capture(
            one.evidence.path,
            one.evidence.rank,
            one.evidence.events,
            len(one.account.rows),
            one.evidence.world,
        )
        for one in parts
        if one.account.steps is not None
    )


def chosen(every: Sequence[Capture]) -> tuple[Capture, ...] | str:
    """Choose the captures to replay, or say why there are none."""
    if not every:
        return "there is no window with steps"
    if len({one.rank for one in every}) > 1 or any((one.world or 1) > 1 for one in every):
        return "several ranks: how one waits for another is not replayed"
    fit = [one for one in every if one.events <= MOST_EVENTS]
    if not fit:
        least = min(one.events for one in every)
        return f"a window of {least:,} events is longer than what is replayed ({MOST_EVENTS:,})"
    useful = [one for one in fit if one.steps >= _FEWEST_STEPS]
    if not useful:
        return "no window has a whole step"
    found: list[Capture] = []
    for one in sorted(useful, key=lambda one: -one.steps)[:_MOST_WINDOWS]:
        if sum(each.events for each in found) + one.events <= MOST_EVENTS:
            found.append(one)
    return tuple(found)


def reread(some: Sequence[Capture], *, cached: bool) -> tuple[Window, ...]:
    """Read captures again; one that is gone meanwhile is left out."""
    found: list[Window] = []
    for one in some:
        try:
            trace = capture_of(one.path, cache.key(one.path) if cached else None)
        except GaplessError:
            continue
        joined = join(trace)
        found.append(Window(trace, joined, partition(trace, joined=joined)))
    return tuple(found)
