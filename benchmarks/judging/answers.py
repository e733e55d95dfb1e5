"""What a tool says of a record: what it would do first, second, third, and what each would give."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.judging.records import Line, Record
from gapless.model.interval import Interval


@dataclass(frozen=True)
class Recommendation:
    """Something to do: an edit by the catalogue's name, or a cause to do away with by hand."""

    fix: str | None = None  # without its value
    value: float | None = None  # how many workers, threads, batches
    causes: frozenset[str] = frozenset()  # in the words of ``causes``
    says: str = ""  # in the tool's own words
    speedup: Interval | None = None


@dataclass(frozen=True)
class Answer:
    """What a tool says of one record; ``refused``: why it says nothing at all."""

    named: tuple[Recommendation, ...] = ()  # the most valuable first; none: nothing to gain
    predicted: Mapping[str, Interval] = field(
        default_factory=dict[str, Interval]
    )  # line → speed-up
    refused: str | None = None


def lines_meant(record: Record, named: Recommendation) -> tuple[Line, ...]:
    """Give the single remedies of a menu that are what was recommended; none: it is not there.

    Those of its name; of its cause, what was trained otherwise, and edits if none has its name.
    """
    some = [one for one in record.lines if one.single]
    same = [one for one in some if one.fix is not None and one.fix == named.fix]
    against = [one for one in some if one.causes & named.causes]
    return (*same, *(one for one in against if not same or not one.edits))


def line_done(record: Record, named: Recommendation) -> Line | None:
    """Give the one line that following a recommendation amounts to.

    Of several values the nearest, by ratio; of two as near, and of several causes, the worse.
    """
    found = [one for one in lines_meant(record, named) if one.speedup is not None]
    edits = [one for one in found if one.edits] or found
    return min(edits, key=lambda one: (_apart(one, named), _gain(one))) if edits else None


def _gain(line: Line) -> float:
    return line.speedup.mid if line.speedup is not None else 1.0


def _apart(line: Line, named: Recommendation) -> float:
    mine = value_of(line.edits)
    if mine is None or named.value is None or mine <= 0 or named.value <= 0:
        return 0.0
    return round(abs(math.log(mine / named.value)), 6)


def value_of(edits: tuple[Mapping[str, Any], ...]) -> float | None:
    """Give the first number that some edits set."""
    for edit in edits:
        value = edit.get("value")
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
    return None
