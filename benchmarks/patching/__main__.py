"""Write a fix into every shape of source, and compare the patched training with the overlay.

python -m benchmarks.patching [--only WORD] [--out FILE]
"""

import argparse
import json
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import metadata
from pathlib import Path

from benchmarks.machine import machine, write_result
from benchmarks.patching.comparing import compare
from benchmarks.patching.shape import Shape
from benchmarks.patching.shapes import SHAPES

RESULT = Path(__file__).parents[1] / "results/patching.json"


def main() -> int:
    """Measure, print a line for each shape, write the result; 1 if a patch is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="shapes with this in their name")
    parser.add_argument("--jobs", type=int, default=2, help="trainings at a time")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--again", action="store_true", help="run all trainings again")
    arguments = parser.parse_args()
    known = {} if arguments.again else _read_rows(arguments.out)
    shapes = [shape for shape in SHAPES if arguments.only in shape.name]
    rows = {shape.name: known[shape.name] for shape in SHAPES if shape.name in known}
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for row in pool.map(partial(_compare, known), shapes):
            print(f"{_judge(row):10} {row['shape']}", flush=True)
            rows[str(row["shape"])] = row
            # Each time: an interrupted run goes on from there.
            write_result(_summarize([*rows.values()]), arguments.out)
    counts = Counter(map(_judge, rows.values()))
    print(dict(counts))
    return 0 if counts.keys() <= {"same", "refused"} else 1


def _summarize(rows: list[dict[str, object]]) -> dict[str, object]:
    return {
        "machine": machine(),
        "versions": {name: metadata.version(name) for name in ("torch", "libcst")},
        "shapes": len(rows),
        "counts": dict(sorted(Counter(map(_judge, rows)).items())),
        "rows": rows,
    }


def _read_rows(path: Path) -> dict[str, dict[str, object]]:
    """Return the rows of a result by shape; none if there is no result."""
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    return {row["shape"]: row for row in rows}


def _compare(known: dict[str, dict[str, object]], shape: Shape) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        return compare(shape, Path(folder), known.get(shape.name, {}))


def _judge(row: dict[str, object]) -> str:
    """Return a word for what became of a shape."""
    if row["written"] is not row["expected"]:
        return "unexpected"
    if not row["written"]:
        return "refused"
    if not row["runs"]:
        return "broken"
    return "same" if row["same"] else "different"


if __name__ == "__main__":
    raise SystemExit(main())
