"""Queries on checkpoints, logging and evaluation: how often, how long, from which line."""

from collections.abc import Sequence
from math import ceil
from typing import Final

from msgspec import Struct

from gapless.catalogue.queries import windows
from gapless.catalogue.queries.input.loaders import percent
from gapless.model.edit import Location
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.footprint import CallUse
from gapless.model.rhythm import Sighting

MAX_PERIOD = 100  # the longest period to suggest
_MIN_PER_STEP: Final = 1.5  # times a step: fewer count as once in each step
_MIN_SIGHTINGS: Final = 3  # sightings: two whole periods


class Occasion(Struct, frozen=True):
    """Something done periodically: ns of a step, ns each time, times a step, the user's line."""

    step_ns: float
    each_ns: float | None
    per_step: float | None
    location: Location | None
    sighting: Sighting | None = None  # when it occurred; ``None``: not known

    def suggest_period(self, step_ns: float, min_share: float) -> int:
        """Return N such that doing it every N-th time costs less than a share of the step."""
        period = ceil(self.step_ns / (min_share * step_ns)) if step_ns else MAX_PERIOD
        return max(2, min(MAX_PERIOD, period))

    @property
    def unsure_reason(self) -> str | None:
        """Return why its share of the recording may not be its share of training; else ``None``."""
        sighting = self.sighting
        if sighting is None or sighting.period is not None:
            return None
        time_words = ", before the second step" if sighting.at_start else ""
        return f"seen {sighting.times}{time_words}, its period is not known"

    @property
    def frequency(self) -> str:
        """Return how often it is done: "every 20 steps", "3.0 times a step"."""
        if self.unsure_reason is not None:
            return self.unsure_reason
        period = None if self.sighting is None else self.sighting.period
        rate = self.per_step or (1 / period if period else None)
        if rate is None:
            return "now and then"
        if rate >= _MIN_PER_STEP:
            return f"{rate:.1f} times a step"
        return (
            "in each step" if rate > 1 / _MIN_PER_STEP else f"every {period or 1 / rate:.0f} steps"
        )

    def format_cost(self, evidence: Evidence) -> str:
        """Return what it takes of each step; of what is unsure, its share of the recording."""
        if self.unsure_reason is None or not evidence.step_ns:
            return windows.format_step_part(evidence, self.step_ns)
        return f"{percent(min(1.0, self.step_ns / evidence.step_ns))} of the recorded steps' time"


def find_sighting(evidence: Evidence, leaf: str) -> Sighting | None:
    """Return when a leaf was seen in a run; ``None`` if that is not known."""
    return None if evidence.run_steps is None else evidence.run_steps.sightings.get(leaf)


def find_environment(evidence: Evidence) -> str | None:
    """Return the package of environments in which the model collects its training data.

    ``None``: evaluation mode means an evaluation. An agent is in evaluation mode while it acts,
    too; no loader gives such a training its data.
    """
    facts = evidence.facts
    if facts.loaders:
        return None
    return next(
        (evaluation.environment for evaluation in facts.evaluations if evaluation.environment), None
    )


def find_occasion(evidence: Evidence, kind: str, leaf: str) -> Occasion | None:
    """Return checkpoints or logging made by the user's lines; ``None`` if none was seen.

    Raises ``NotObservedError`` for a run that was not recorded.
    """
    if evidence.is_trace_only:
        return _find_in_trace(evidence, leaf)
    if evidence.footprint is None:
        raise NotObservedError("run", "only a recorded run shows it")
    uses = [use for use in evidence.footprint.calls if use.kind == kind]
    spent_ns = evidence.per_step(leaf)
    if not spent_ns:
        return None
    count = sum(use.count for use in uses)
    total_ns = sum(use.total_ns for use in uses)
    rates = [use.per_step for use in uses if use.per_step is not None]
    return Occasion(
        step_ns=spent_ns,
        each_ns=total_ns / count if count else None,
        per_step=sum(rates) if rates else None,
        location=_first_location(uses),
        sighting=find_sighting(evidence, leaf),
    )


def find_line(evidence: Evidence, kind: str) -> Location | None:
    """Return the user's line that spent most time in a kind of calls, within steps or not."""
    uses = () if evidence.footprint is None else evidence.footprint.calls
    return _first_location([use for use in uses if use.kind == kind])


def _find_in_trace(evidence: Evidence, leaf: str) -> Occasion | None:
    """Return what stacks of a trace show, step by step. Raises ``NotObservedError`` without stacks.

    A trace has few steps, all adjacent: a period is known only if most of them have it.
    """
    if not evidence.study.tables.lines:
        raise NotObservedError("stacks", "the trace has no Python stacks (with_stack=True)")
    rows = evidence.study.account.rows if evidence.study.account.steps else ()
    ns_by_row = [
        sum(ns for name, ns in row.leaves.items() if name.startswith(leaf)) for row in rows
    ]
    count = sum(ns > 0 for ns in ns_by_row)
    if not count:
        return None
    each_ns = round(sum(ns_by_row) / count)
    rate = count / len(rows)
    return Occasion(
        step_ns=evidence.per_step(leaf),
        each_ns=each_ns,
        per_step=rate if count >= _MIN_SIGHTINGS else None,
        location=windows.find_calling_function(evidence, leaf),
        sighting=Sighting(
            count, each_ns, 1 / rate if count >= _MIN_SIGHTINGS else None, at_start=False
        ),
    )


def _first_location(uses: Sequence[CallUse]) -> Location | None:
    for use in uses:
        if use.file is not None and use.line is not None:
            return Location(use.file, use.line, use.function)
    return None
