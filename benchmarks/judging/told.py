"""A result as JSON: what was said of each case, so that any part of it can be judged anew."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.judging import metrics
from benchmarks.judging.answers import Answer
from benchmarks.judging.metrics import Judged, Miss
from benchmarks.judging.records import Record

OURS: Final = "gapless"
CAUSES: Final = Path(__file__).with_name("causes_of_errors.json")
_WORST: Final = 10


def plain(answer: Answer) -> dict[str, Any]:
    """Give an answer as JSON has it."""
    told = msgspec.to_builtins(answer)
    for one in told["named"]:
        one["causes"] = sorted(one["causes"])
    return told


def answer_of(told: object) -> Answer:
    """Give the answer that a JSON object tells of."""
    return msgspec.convert(told, Answer)


def judged_again(result: Mapping[str, Any], records: Sequence[Record]) -> Judged:
    """Give what a kept result says of some records; those that it does not know are left out."""
    cases = result["cases"]
    return [(one, answer_of(cases[one.case]["said"])) for one in records if one.case in cases]


def worst(judged: Judged, causes: Path) -> list[dict[str, Any]]:
    """Give the predictions that were furthest off, with what was found to be the cause of it."""
    known: Mapping[str, str] = json.loads(causes.read_text(encoding="utf-8"))
    found = sorted(metrics.misses(judged), key=lambda one: -abs(one.points))[:_WORST]
    return [_miss(one, known.get(f"{one.case}: {one.line}")) for one in found]


def _miss(one: Miss, cause: str | None) -> dict[str, Any]:
    return {
        "case": one.case,
        "line": one.line,
        "family": one.family,
        "predicted": msgspec.to_builtins(one.predicted),
        "measured": msgspec.to_builtins(one.measured),
        "points": round(one.points, 2),
        "rate": round(one.rate, 4),
        "cause": cause,
    }


def case(record: Record, answer: Answer) -> dict[str, Any]:
    """Give what was said of a case beside what is true of it."""
    one: Judged = [(record, answer)]
    best = record.best
    return {
        "truth": record.truth,
        "best": None if best is None else best.name,
        "gain": None if best is None or best.speedup is None else round(best.speedup.mid, 4),
        "first": metrics.found(one, 1).value,
        "first_three": metrics.found(one, 3).value,
        "said": plain(answer),
    }


def rounded(value: object, digits: int = 5) -> object:
    """Give a result with figures short enough to read."""
    if isinstance(value, float):
        return round(value, digits)
    if isinstance(value, Mapping):
        return {str(key): rounded(one, digits) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one, digits) for one in value]
    return value
