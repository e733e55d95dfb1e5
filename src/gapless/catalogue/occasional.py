"""What rules ask of checkpoints, logging and evaluation: how often, how long, from which line."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from gapless.catalogue import windowed
from gapless.catalogue.ruling import NotSeenError
from gapless.model.edit import Where
from gapless.model.footprint import CallUse
from gapless.model.rhythm import Sighting
from gapless.model.seen import Seen

MOST = 100  # as seldom as that, and no more
_TWICE: Final = 1.5  # times a step: less is in each step, as far as one can tell
_KNOWN: Final = 3  # times: two whole periods


@dataclass(frozen=True)
class Occasion:
    """Something done now and then: ns of a step, ns each time, times a step, the user's line."""

    step_ns: float
    each_ns: float | None
    per_step: float | None
    where: Where | None
    sighting: Sighting | None = None  # when it came; ``None``: nothing tells

    def every(self, step: float, least: float) -> int:
        """Give N such that every N-th time alone costs less than a share of the step."""
        wanted = ceil(self.step_ns / (least * step)) if step else MOST
        return max(2, min(MOST, wanted))

    @property
    def unsure(self) -> str | None:
        """Say why its share of the recording is no share of the training; ``None`` if it is."""
        known = self.sighting
        if known is None or known.period is not None:
            return None
        if known.at_start:
            return "seen once, before the second step"
        return f"seen {'once' if known.count == 1 else 'twice'}, its period is not known"

    @property
    def how_often(self) -> str:
        """Say how often it is done: "every 20 steps", "3.0 times a step"."""
        if self.unsure is not None:
            return self.unsure
        period = None if self.sighting is None else self.sighting.period
        often = self.per_step or (1 / period if period else None)
        if often is None:
            return "now and then"
        if often >= _TWICE:
            return f"{often:.1f} times a step"
        return "in each step" if often > 1 / _TWICE else f"every {period or 1 / often:.0f} steps"

    def taking(self, seen: Seen) -> str:
        """Say what it takes: of each step, or of the few that were recorded."""
        words = windowed.of_step(seen, self.step_ns)
        return words if self.unsure is None else f"{words} of this recording"


def sighting(seen: Seen, leaf: str) -> Sighting | None:
    """Give when a leaf was seen in a run; ``None`` where nothing tells."""
    recorded = seen.study.recorded
    return (
        None if recorded is None or recorded.steps is None else recorded.steps.sightings.get(leaf)
    )


def experience(seen: Seen) -> str | None:
    """Name the package of environments in which the model collects what it is trained with.

    ``None``: what it is told to evaluate for is an evaluation. An agent is told to, too, while it
    acts; no loader gives such a training its data.
    """
    facts = seen.facts
    if facts is None or facts.loaders:
        return None
    return next((one.environment for one in facts.evaluations if one.environment), None)


def calls(seen: Seen, kind: str, leaf: str) -> Occasion | None:
    """Give checkpoints or logging as lines of the user's make them; ``None`` where none was seen.

    Raises ``NotSeenError`` for a run that was not recorded.
    """
    recorded = seen.study.recorded
    if recorded is None:
        return _of_trace(seen, leaf)
    if recorded.footprint is None:
        raise NotSeenError("run", "only a recorded run tells")
    mine = [one for one in recorded.footprint.calls if one.kind == kind]
    spent = seen.per_step(leaf)
    if not spent:
        return None
    count = sum(one.count for one in mine)
    total = sum(one.total_ns for one in mine)
    rates = [one.per_step for one in mine if one.per_step is not None]
    return Occasion(
        step_ns=spent,
        each_ns=total / count if count else None,
        per_step=sum(rates) if rates else None,
        where=_where(mine),
        sighting=sighting(seen, leaf),
    )


def line(seen: Seen, kind: str) -> Where | None:
    """Give the user's line that most time of a kind of calls went to, within steps or not."""
    recorded = seen.study.recorded
    footprint = None if recorded is None else recorded.footprint
    calls = () if footprint is None else footprint.calls
    return _where([call for call in calls if call.kind == kind])


def _of_trace(seen: Seen, leaf: str) -> Occasion | None:
    """Give what stacks of a trace show, step by step. Raises ``NotSeenError`` without stacks.

    Steps of a trace are few and lie together: a period is known only where most of them have it.
    """
    if not seen.study.tables.lines:
        raise NotSeenError("stacks", "the trace has no Python stacks (with_stack=True)")
    rows = seen.study.account.rows if seen.study.account.steps else ()
    took = [sum(ns for name, ns in one.leaves.items() if name.startswith(leaf)) for one in rows]
    had = sum(ns > 0 for ns in took)
    if not had:
        return None
    each = round(sum(took) / had)
    often = had / len(rows)
    return Occasion(
        step_ns=seen.per_step(leaf),
        each_ns=each,
        per_step=often if had >= _KNOWN else None,
        where=windowed.site(seen, leaf),
        sighting=Sighting(had, each, 1 / often if had >= _KNOWN else None, at_start=False),
    )


def _where(uses: Sequence[CallUse]) -> Where | None:
    for one in uses:
        if one.file is not None and one.line is not None:
            return Where(one.file, one.line, one.function)
    return None
