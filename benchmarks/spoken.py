"""Say which rules speak of which recordings: ``python -m benchmarks.spoken [NAME …]``.

Each recording of the zoo, of the jobs, of the strangers and of ``tests/data`` is opened as anybody
would open it, and what each rule said is kept in ``tests/zoo/spoken.json``: the table in
docs/rules.md comes from it. Without names those are asked that the file does not hold; ``--again``
asks all.
"""

import argparse
import fnmatch
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import write_result
from gapless.store.run.unpack import unpack

ROOT: Final = Path(__file__).resolve().parents[1]
SPOKEN_PATH: Final = ROOT / "tests" / "zoo" / "spoken.json"
RECORDS: Final = ROOT / "tests" / "zoo" / "records"
JOBS: Final = ROOT / "tests" / "jobs" / "records"
STRANGERS: Final = ROOT / "tests" / "strangers" / "records"
DATA: Final = ROOT / "tests" / "data"
OUTCOMES: Final = ("findings", "to_try", "present", "abstentions")  # the loudest first


def recordings() -> dict[str, tuple[Path, ...]]:
    """Return all recordings by name; the ranks of a job are one."""
    by_name: dict[str, tuple[Path, ...]] = {
        run.parent.name: (run,) for run in sorted(RECORDS.glob("*/run.tar.zst"))
    }
    by_name |= {
        run.parent.name: tuple(sorted(run.parent.glob("run*.tar.zst")))
        for run in sorted(JOBS.glob("*/run.tar.zst"))
    }
    by_name |= {
        f"stranger {run.parent.name}": (run,) for run in sorted(STRANGERS.glob("*/run.tar.zst"))
    }
    by_name |= {
        f"run {run.name.partition('.')[0]}": (run,) for run in sorted(DATA.glob("runs/*.tar.zst"))
    }
    for trace in sorted((*DATA.glob("*.json.gz"), *DATA.glob("*.json.columns"))):
        name = f"trace {trace.name.partition('.')[0]}"
        by_name[name] = (*by_name.get(name, ()), trace)
    return by_name


def open_study(paths: Sequence[Path]) -> Mapping[str, Any]:
    """Return the study of a recording as ``gapless open --json`` tells it."""
    with tempfile.TemporaryDirectory(prefix="gapless-spoken-") as folder:
        names = [
            str(unpack(path, Path(folder) / path.stem) if path.suffix == ".zst" else path)
            for path in paths
        ]
        line = [sys.executable, "-m", "gapless", "open", "--no-cache", "--json", *names]
        process = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(process.stdout)


def codes_by_outcome(study: Mapping[str, Any]) -> dict[str, Any]:
    """Return which rules spoke, each at its loudest, and what findings lack of line and remedy."""
    loudest_by_code: dict[str, str] = {}
    for outcome in reversed(OUTCOMES):
        loudest_by_code |= {row["code"]: outcome for row in study.get(outcome) or ()}
    codes: dict[str, Any] = {
        outcome: sorted(code for code, loudest in loudest_by_code.items() if loudest == outcome)
        for outcome in OUTCOMES
    }
    findings = study.get("findings") or ()
    codes["no_line"] = sorted({finding["code"] for finding in findings if finding["where"] is None})
    codes["no_remedy"] = sorted(
        {
            finding["code"]
            for finding in findings
            if not finding["helps"] and finding["no_remedy"] is None
        }
    )
    return codes


def main() -> int:
    """Ask, one recording after another, and keep what was said after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="of recordings, or patterns of names")
    parser.add_argument("--again", action="store_true", help="ask those that were asked before")
    options = parser.parse_args()
    paths_by_name = recordings()
    spoken = json.loads(SPOKEN_PATH.read_text()) if SPOKEN_PATH.exists() else {}
    spoken = {name: codes for name, codes in spoken.items() if name in paths_by_name}
    for name, paths in paths_by_name.items():
        is_named = any(fnmatch.fnmatch(name, pattern) for pattern in options.names)
        if is_named if options.names else options.again or name not in spoken:
            spoken[name] = codes_by_outcome(open_study(paths))
            print(
                name,
                " ".join(f"{outcome}: {spoken[name][outcome]}" for outcome in OUTCOMES[:3]),
                flush=True,
            )
            write_result(
                {
                    recording: spoken[recording]
                    for recording in paths_by_name
                    if recording in spoken
                },
                SPOKEN_PATH,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
