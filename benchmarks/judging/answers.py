"""What a tool says of a record: what it would do first, second, third, and what each would give."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.judging.records import MenuLine, Record
from gapless.model.estimate import Estimate


@dataclass(frozen=True)
class Recommendation:
    """Something to do: an edit by the catalogue's name, or a cause to do away with by hand."""

    fix: str | None = None  # without its value
    value: float | None = None  # how many workers, threads, batches
    causes: frozenset[str] = frozenset()  # in the words of ``causes``
    says: str = ""  # in the tool's own words
    speedup: Estimate | None = None


@dataclass(frozen=True)
class Answer:
    """What a tool says of one record; ``refused``: why it says nothing at all."""

    named: tuple[Recommendation, ...] = ()  # the most valuable first; none: nothing to gain
    predicted: Mapping[str, Estimate] = field(
        default_factory=dict[str, Estimate]
    )  # line → speed-up
    refused: str | None = None


def matching_lines(record: Record, recommendation: Recommendation) -> tuple[MenuLine, ...]:
    """Return the single remedies of a menu that are what was recommended; none: it is not there.

    Those of its name; of its cause, what was trained otherwise, and edits if none has its name.
    """
    singles = [line for line in record.lines if line.single]
    same_fix = [line for line in singles if line.fix is not None and line.fix == recommendation.fix]
    same_cause = [line for line in singles if line.causes & recommendation.causes]
    return (*same_fix, *(line for line in same_cause if not same_fix or not line.edits))


def followed_line(record: Record, recommendation: Recommendation) -> MenuLine | None:
    """Return the one line that following a recommendation amounts to.

    Of several values the nearest, by ratio; of two as near, and of several causes, the worse.
    """
    candidates = [
        line for line in matching_lines(record, recommendation) if line.speedup is not None
    ]
    edited = [line for line in candidates if line.edits] or candidates
    return (
        min(edited, key=lambda line: (_value_distance(line, recommendation), _gain(line)))
        if edited
        else None
    )


def _gain(line: MenuLine) -> float:
    return line.speedup.mid if line.speedup is not None else 1.0


def _value_distance(line: MenuLine, recommendation: Recommendation) -> float:
    line_value = value_of(line.edits)
    if (
        line_value is None
        or recommendation.value is None
        or line_value <= 0
        or recommendation.value <= 0
    ):
        return 0.0
    return round(abs(math.log(line_value / recommendation.value)), 6)


def value_of(edits: tuple[Mapping[str, Any], ...]) -> float | None:
    """Return the first number that some edits set."""
    for edit in edits:
        value = edit.get("value")
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
    return None
