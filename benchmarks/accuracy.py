"""Judge gapless, and what others would say, by records whose truth was measured.

``python -m benchmarks.accuracy --out benchmarks/results/accuracy.json`` asks each of them about
every record of the zoo, and says how often they were right. Whatever is fitted to residuals is
fitted without the kind of training that is judged. ``--fit`` also writes the residuals of all
records into ``src/gapless/replay``: by them the intervals of everybody's runs are widened.
"""

import argparse
import fnmatch
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec

from benchmarks.judging import figures, frozen, metrics, records, told
from benchmarks.judging.looking import Inspection, RecordHealth, ask_again, inspect_record
from benchmarks.judging.metrics import CaseShare, JudgedCases, Miss
from benchmarks.judging.records import Record
from benchmarks.judging.told import GAPLESS
from benchmarks.machine import machine, write_result
from gapless.replay.predict.calibration import MIN_RESIDUALS

RESIDUALS: Final = records.ROOT / "src" / "gapless" / "replay" / "residuals.json"
MAX_IDENTITY_ERROR: Final = 0.02  # what an unchanged replay may be off
AnswersByTool = Mapping[str, JudgedCases]  # tool → what it said of each record


def ask_tools(case_records: Sequence[Record], lanes: int) -> tuple[list[Inspection], AnswersByTool]:
    """Ask all tools about all records: what was seen, and what each said."""
    with ProcessPoolExecutor(lanes) as pool:
        inspections = list(pool.map(inspect_record, case_records))
        residuals = [residual for inspection in inspections for residual in inspection.residuals]
        answers = [inspection.answer for inspection in inspections]
        if (
            max(Counter(residual.family for residual in residuals).values(), default=0)
            >= MIN_RESIDUALS
        ):
            answers = list(pool.map(ask_again, case_records, [residuals] * len(case_records)))
    own_answers: JudgedCases = list(zip(case_records, answers, strict=True))
    baselines = {
        name: [
            (record, inspection.baselines[name])
            for record, inspection in zip(case_records, inspections, strict=True)
        ]
        for name in (inspections[0].baselines if inspections else ())
    }
    return inspections, {GAPLESS: own_answers, **baselines}


def result(
    case_records: Sequence[Record], inspections: Sequence[Inspection], answers: AnswersByTool
) -> dict[str, Any]:
    """Put everything into the form that is kept."""
    truths = Counter(record.truth for record in case_records)
    return {
        "version": 1,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "thresholds": frozen.thresholds_hash(),
        "judge": frozen.judge_hash(),
        "residuals": dict(
            Counter(
                residual.family for inspection in inspections for residual in inspection.residuals
            )
        ),
        "records": {
            "all": len(case_records),
            **{name: truths[name] for name in ("faulty", "sound", "undecided")},
            "matter": sum(record.matters for record in case_records),
        },
        "tools": {name: figures.figure_table(judged) for name, judged in answers.items()},
        "alike": shared_lines(answers),
        "health": health_figures([inspection.health for inspection in inspections]),
        "worst": told.worst_misses(answers[GAPLESS], told.CAUSES),
        "cases": {
            record.case: told.case_to_json(record, answer)
            | {"health": msgspec.to_builtins(inspection.health)}
            for (record, answer), inspection in zip(answers[GAPLESS], inspections, strict=True)
        },
    }


def shared_lines(answers: AnswersByTool) -> dict[str, Mapping[str, object]]:
    """Return the errors of those that predict, on lines that all of them predict."""
    misses = {
        name: {(miss.case, miss.line): miss for miss in metrics.gain_misses(j)}
        for name, j in answers.items()
    }
    predicting = {
        name: tool_misses
        for name, tool_misses in misses.items()
        if tool_misses and name in _PREDICTING_TOOLS
    }
    if GAPLESS not in predicting:
        return {}
    shared_keys = set[tuple[str, str]].intersection(
        *(set(tool_misses) for tool_misses in predicting.values())
    )
    filters: dict[str, Callable[[Miss], bool]] = {
        "": lambda _: True,
        ", structural": _is_structural,
    }
    return {
        name + suffix: figures.gains(
            [tool_misses[key] for key in sorted(shared_keys) if is_counted(tool_misses[key])]
        )
        for suffix, is_counted in filters.items()
        for name, tool_misses in predicting.items()
    }


_PREDICTING_TOOLS: Final = (
    GAPLESS,
    "table of constant gains",
    "subtraction (Amdahl), AMP ÷3 and ÷2",
)


def _is_structural(miss: Miss) -> bool:
    return miss.family != "kernel"


def health_figures(records_health: Sequence[RecordHealth]) -> dict[str, Any]:
    """Return what must hold of all records, in figures."""
    imputed = [record.imputed for record in records_health if record.imputed is not None]
    anchored = [
        abs(record.unprofiled) for record in records_health if record.unprofiled is not None
    ]
    unsteady = [record.unsteady for record in records_health if record.unsteady is not None]
    n_replayed = sum(
        record.imputed is not None or record.refused is not None for record in records_health
    )
    identical = CaseShare(
        sum(abs(error) <= MAX_IDENTITY_ERROR for error in imputed), n_replayed
    )  # who refuses does not pass
    return {
        "of": len(records_health),
        "inexact": sum(not record.exact for record in records_health),
        "identity": {"count": identical.count, "of": identical.total, "share": identical.value},
        "identity_median": median(map(abs, imputed)) if imputed else None,
        "anchored_median": median(anchored) if anchored else None,
        "unsteady_median": median(unsteady) if unsteady else None,
        "refused": dict(
            Counter(record.refused for record in records_health if record.refused is not None)
        ),
    }


def write_residuals(inspections: Sequence[Inspection]) -> None:
    """Keep the residuals of all records for the intervals of everybody's runs."""
    rows = sorted(
        (residual.family, residual.training, residual.score)
        for inspection in inspections
        for residual in inspection.residuals
    )
    lines = ",\n".join(json.dumps(row) for row in rows)
    RESIDUALS.write_text(f"[\n{lines}\n]\n" if lines else "[]\n")


def summarize(document: Mapping[str, Any]) -> str:
    """Return a line a tool."""
    lines = [f"{'':36} first three  regret  false  error"]
    for name, tool in document["tools"].items():
        figures = (
            tool["first"]["share"],
            tool["first_three"]["share"],
            tool["regret_mean"],
            tool["false_alarms"]["share"],
            tool["gains"]["all"]["error_points"],
        )
        lines.append(
            f"{name:36} " + "  ".join("  –  " if x is None else f"{x:.3f}" for x in figures)
        )
    return "\n".join(lines)


def main() -> int:
    """Judge, and keep the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--records", type=Path, default=records.ZOO, help="a folder of records")
    add("--cases", nargs="+", metavar="PATTERN", help="names, or patterns of names")
    add("--lanes", type=int, default=os.cpu_count() or 1, help="records at a time")
    add("--out", type=Path)
    add("--fit", action="store_true", help="keep the residuals for everybody's intervals")
    options = parser.parse_args()
    selected = [
        record
        for record in records.read_records(options.records)
        if options.cases is None or any(fnmatch.fnmatch(record.case, p) for p in options.cases)
    ]
    if not selected:
        sys.exit(f"there is no such record in {options.records}")
    inspections, answers = ask_tools(selected, options.lanes)
    if options.fit:
        write_residuals(inspections)
    document = told.round_figures(result(selected, inspections, answers))
    write_result(document, options.out)
    print(summarize(json.loads(json.dumps(document))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
