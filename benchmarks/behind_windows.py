"""Compare the steps behind the first window with those before it, in the zoo's GPU recordings.

``python -m benchmarks.behind_windows --out FILE``: no machine is measured, recordings are read. The
steps are un-profiled ones of the same process, waits for data and what is seldom aside; a recording
counts as slower by the rule of the report (``gapless.recorded.steps.step_times``), also where the
profiler was detached. Beside it stands the step of the case's menu, which was measured without any
profiler, waits for data in it: where that is nearer to the steps before the window, what came with
it is likely the reason; where it is not, the steps before it were short for another (a queue that
was full, a machine that was less busy).
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.machine import write_result
from gapless.recorded.steps.step_times import compare_sides as sides
from gapless.recorded.training.processes import counted_steps, trainings
from gapless.store.run.recordings import load
from gapless.store.run.unpack import unpack

RECORDS = Path(__file__).resolve().parents[1] / "tests" / "zoo" / "records"


def compare_recording(record: Path) -> dict[str, Any]:
    """Compare one recording."""
    menu = json.loads((record / "menu.json").read_text())
    with tempfile.TemporaryDirectory() as folder:
        (training, *_) = trainings(load(unpack(record / "run.tar.zst", Path(folder))))
        slowdown = sides(training.process, training.edges, counted_steps(training))
    row: dict[str, Any] = {"case": record.name, "windows": len(training.process.windows)}
    row |= {"device": menu["machine"]["device"]["name"]}
    row |= {"step_without_profiler_ns": menu["step_ns"]}
    if slowdown is not None:
        before = menu["step_ns"] ** 2 < slowdown.before_ns * slowdown.behind_ns
        row |= {"steps_before": slowdown.count, "before_ns": slowdown.before_ns}
        row |= {
            "behind_ns": slowdown.behind_ns,
            "longer": round(slowdown.behind_ns / slowdown.before_ns, 4),
            "nearer": "before" if before else "behind",
        }
    return row


def main() -> None:
    """Compare all, and print those that are slower."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = [compare_recording(path.parent) for path in sorted(RECORDS.glob("*-g/menu.json"))]
    write_result({"records": rows}, options.out)
    for row in rows:
        if "longer" in row:
            comparison = f"without a profiler: nearer to {row['nearer']} it"
            print(
                f"{row['case']}: {row['longer']:.2f} times as long behind the first window; "
                f"{comparison}"
            )


if __name__ == "__main__":
    main()
