"""A result as JSON: what was said of each case, so that any part of it can be judged anew."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.judging import metrics
from benchmarks.judging.answers import Answer
from benchmarks.judging.metrics import JudgedCases, Miss
from benchmarks.judging.records import Record

GAPLESS: Final = "gapless"
CAUSES: Final = Path(__file__).with_name("causes_of_errors.json")
_MAX_WORST: Final = 10


def answer_to_json(answer: Answer) -> dict[str, Any]:
    """Return an answer as JSON has it."""
    document = msgspec.to_builtins(answer)
    for recommendation in document["named"]:
        recommendation["causes"] = sorted(recommendation["causes"])
    return document


def answer_from_json(document: object) -> Answer:
    """Return the answer that a JSON object tells of."""
    return msgspec.convert(document, Answer)


def judge_again(result: Mapping[str, Any], records: Sequence[Record]) -> JudgedCases:
    """Return what a kept result says of some records; those that it does not know are left out."""
    cases = result["cases"]
    return [
        (record, answer_from_json(cases[record.case]["said"]))
        for record in records
        if record.case in cases
    ]


def worst_misses(judged: JudgedCases, causes: Path) -> list[dict[str, Any]]:
    """Return the predictions that were furthest off, with what was found to be the cause of it."""
    causes_by_line: Mapping[str, str] = json.loads(causes.read_text(encoding="utf-8"))
    misses = sorted(metrics.gain_misses(judged), key=lambda miss: -abs(miss.points))[:_MAX_WORST]
    return [_miss_to_json(miss, causes_by_line.get(f"{miss.case}: {miss.line}")) for miss in misses]


def _miss_to_json(miss: Miss, cause: str | None) -> dict[str, Any]:
    return {
        "case": miss.case,
        "line": miss.line,
        "family": miss.family,
        "predicted": msgspec.to_builtins(miss.predicted),
        "measured": msgspec.to_builtins(miss.measured),
        "points": round(miss.points, 2),
        "rate": round(miss.rate, 4),
        "cause": cause,
    }


def case_to_json(record: Record, answer: Answer) -> dict[str, Any]:
    """Return what was said of a case beside what is true of it."""
    judged: JudgedCases = [(record, answer)]
    best = record.best
    return {
        "truth": record.truth,
        "best": None if best is None else best.name,
        "gain": None if best is None or best.speedup is None else round(best.speedup.mid, 4),
        "first": metrics.hit_share(judged, 1).value,
        "first_three": metrics.hit_share(judged, 3).value,
        "said": answer_to_json(answer),
    }


def round_figures(value: object, digits: int = 5) -> object:
    """Return a result with figures short enough to read."""
    if isinstance(value, float):
        return round(value, digits)
    if isinstance(value, Mapping):
        return {str(key): round_figures(member, digits) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [round_figures(member, digits) for member in value]
    return value
