"""Compare the steps behind the first window with those before it, in the zoo's GPU recordings.

``python -m benchmarks.behind_windows --out FILE``: no machine is measured, recordings are read. The
steps are un-profiled ones of the same process, waits for data and what is seldom aside; a recording
counts as slower by the rule of the report (``gapless.study.recorded.slowed``), also where the
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

from benchmarks.machine import keep
from gapless.store.recordings import load
from gapless.store.unpack import unpack
from gapless.study.recorded.slowed import compared as sides
from gapless.study.recorded.training import counted, trainings

RECORDS = Path(__file__).resolve().parents[1] / "tests" / "zoo" / "records"


def compared(record: Path) -> dict[str, Any]:
    """Compare one recording."""
    menu = json.loads((record / "menu.json").read_text())
    with tempfile.TemporaryDirectory() as place:
        (first, *_) = trainings(load(unpack(record / "run.tar.zst", Path(place))))
        found = sides(first.process, first.edges, counted(first))
    told: dict[str, Any] = {"case": record.name, "windows": len(first.process.windows)}
    told |= {"device": menu["machine"]["device"]["name"]}
    told |= {"step_without_profiler_ns": menu["step_ns"]}
    if found is not None:
        before = menu["step_ns"] ** 2 < found.before_ns * found.behind_ns
        told |= {"steps_before": found.count, "before_ns": found.before_ns}
        told |= {
            "behind_ns": found.behind_ns,
            "longer": round(found.behind_ns / found.before_ns, 4),
            "nearer": "before" if before else "behind",
        }
    return told


def main() -> None:
    """Compare all, and print those that are slower."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    every = [compared(one.parent) for one in sorted(RECORDS.glob("*-g/menu.json"))]
    keep({"records": every}, given.out)
    for one in every:
        if "longer" in one:
            near = f"without a profiler: nearer to {one['nearer']} it"
            print(
                f"{one['case']}: {one['longer']:.2f} times as long behind the first window; {near}"
            )


if __name__ == "__main__":
    main()
