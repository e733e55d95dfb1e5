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
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.judging import figures, frozen, metrics, records, told
from benchmarks.judging.looking import Health, Looked, look, look_again
from benchmarks.judging.metrics import Judged, Miss, Share
from benchmarks.judging.records import Record
from benchmarks.judging.told import OURS
from benchmarks.machine import keep, machine
from gapless.replay.calibration import FEWEST

RESIDUALS: Final = records.ROOT / "src" / "gapless" / "replay" / "residuals.json"
IDENTITY: Final = 0.02  # what an unchanged replay may be off
Said = Mapping[str, Judged]  # tool → what it said of each record


def ask(some: Sequence[Record], lanes: int) -> tuple[list[Looked], Said]:
    """Ask all tools about all records: what was seen, and what each said."""
    with ProcessPoolExecutor(lanes) as pool:
        looked = list(pool.map(look, some))
        known = [residual for one in looked for residual in one.residuals]
        answers = [one.answer for one in looked]
        if max(Counter(one.family for one in known).values(), default=0) >= FEWEST:
            answers = list(pool.map(look_again, some, [known] * len(some)))
    ours: Judged = list(zip(some, answers, strict=True))
    others = {
        name: [(record, one.others[name]) for record, one in zip(some, looked, strict=True)]
        for name in (looked[0].others if looked else ())
    }
    return looked, {OURS: ours, **others}


def result(some: Sequence[Record], looked: Sequence[Looked], said: Said) -> dict[str, Any]:
    """Put everything into the form that is kept."""
    truths = Counter(one.truth for one in some)
    return {
        "version": 1,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "thresholds": frozen.thresholds(),
        "judge": frozen.judge(),
        "residuals": dict(Counter(one.family for each in looked for one in each.residuals)),
        "records": {
            "all": len(some),
            **{name: truths[name] for name in ("faulty", "sound", "undecided")},
            "matter": sum(one.matters for one in some),
        },
        "tools": {name: figures.table(judged) for name, judged in said.items()},
        "alike": alike(said),
        "health": health([one.health for one in looked]),
        "worst": told.worst(said[OURS], told.CAUSES),
        "cases": {
            record.case: told.case(record, answer) | {"health": asdict(one.health)}
            for (record, answer), one in zip(said[OURS], looked, strict=True)
        },
    }


def alike(said: Said) -> dict[str, Mapping[str, object]]:
    """Give the errors of those that predict, on lines that all of them predict."""
    every = {
        name: {(one.case, one.line): one for one in metrics.misses(j)} for name, j in said.items()
    }
    some = {name: found for name, found in every.items() if found and name in _PREDICTING}
    if OURS not in some:
        return {}
    shared = set[tuple[str, str]].intersection(*(set(found) for found in some.values()))
    parted: dict[str, Callable[[Miss], bool]] = {"": lambda _: True, ", structural": _structural}
    return {
        name + of: figures.gains([found[key] for key in sorted(shared) if wanted(found[key])])
        for of, wanted in parted.items()
        for name, found in some.items()
    }


_PREDICTING: Final = (OURS, "table of constant gains", "subtraction (Amdahl), AMP ÷3 and ÷2")


def _structural(one: Miss) -> bool:
    return one.family != "kernel"


def health(every: Sequence[Health]) -> dict[str, Any]:
    """Give what must hold of all records, in figures."""
    imputed = [one.imputed for one in every if one.imputed is not None]
    anchored = [abs(one.unprofiled) for one in every if one.unprofiled is not None]
    unsteady = [one.unsteady for one in every if one.unsteady is not None]
    tried = sum(one.imputed is not None or one.refused is not None for one in every)
    near = Share(sum(abs(one) <= IDENTITY for one in imputed), tried)  # who refuses does not pass
    return {
        "of": len(every),
        "inexact": sum(not one.exact for one in every),
        "identity": {"count": near.count, "of": near.of, "share": near.value},
        "identity_median": median(map(abs, imputed)) if imputed else None,
        "anchored_median": median(anchored) if anchored else None,
        "unsteady_median": median(unsteady) if unsteady else None,
        "refused": dict(Counter(one.refused for one in every if one.refused is not None)),
    }


def fit(looked: Sequence[Looked]) -> None:
    """Keep the residuals of all records for the intervals of everybody's runs."""
    every = sorted(
        (one.family, one.training, one.score) for each in looked for one in each.residuals
    )
    lines = ",\n".join(json.dumps(one) for one in every)
    RESIDUALS.write_text(f"[\n{lines}\n]\n" if lines else "[]\n")


def in_short(found: Mapping[str, Any]) -> str:
    """Give a line a tool."""
    lines = [f"{'':36} first three  regret  false  error"]
    for name, one in found["tools"].items():
        figures = (
            one["first"]["share"],
            one["first_three"]["share"],
            one["regret_mean"],
            one["false_alarms"]["share"],
            one["gains"]["all"]["error_points"],
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
    some = [
        one
        for one in records.all_of(options.records)
        if options.cases is None or any(fnmatch.fnmatch(one.case, p) for p in options.cases)
    ]
    if not some:
        sys.exit(f"there is no such record in {options.records}")
    looked, said = ask(some, options.lanes)
    if options.fit:
        fit(looked)
    found = told.rounded(result(some, looked, said))
    keep(found, options.out)
    print(in_short(json.loads(json.dumps(found))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
