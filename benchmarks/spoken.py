"""Say which rules speak of which recordings: ``python -m benchmarks.spoken [NAME …]``.

Each recording of the zoo and of ``tests/data`` is opened as anybody would open it, and what each
rule said is kept in ``tests/zoo/spoken.json``: the table in docs/rules.md comes from it. Without
names those are asked that the file does not hold; ``--again`` asks all.
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

from benchmarks.machine import keep
from gapless.store.unpack import unpack

ROOT: Final = Path(__file__).resolve().parents[1]
KEPT: Final = ROOT / "tests" / "zoo" / "spoken.json"
RECORDS: Final = ROOT / "tests" / "zoo" / "records"
DATA: Final = ROOT / "tests" / "data"
HOW: Final = ("findings", "to_try", "present", "abstentions")  # the loudest first


def recordings() -> dict[str, tuple[Path, ...]]:
    """Give all recordings by name; the ranks of a job are one."""
    found: dict[str, tuple[Path, ...]] = {
        run.parent.name: (run,) for run in sorted(RECORDS.glob("*/run.tar.zst"))
    }
    found |= {f"run {run.name}": (run,) for run in sorted(DATA.glob("runs/*/")) if run.is_dir()}
    for trace in sorted(DATA.glob("*.json.gz")):
        name = f"trace {trace.name.partition('.')[0]}"
        found[name] = (*found.get(name, ()), trace)
    return found


def opened(paths: Sequence[Path]) -> Mapping[str, Any]:
    """Give the study of a recording as ``gapless open --json`` tells it."""
    with tempfile.TemporaryDirectory(prefix="gapless-spoken-") as place:
        packed = paths[0].suffix == ".zst"
        names = [str(unpack(paths[0], Path(place)) if packed else path) for path in paths]
        line = [sys.executable, "-m", "gapless", "open", "--no-cache", "--json", *names]
        done = subprocess.run(line, cwd=place, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def said(study: Mapping[str, Any]) -> dict[str, Any]:
    """Give which rules spoke, each at its loudest, and what findings lack of line and remedy."""
    left: dict[str, str] = {}
    for how in reversed(HOW):
        left |= {one["code"]: how for one in study.get(how) or ()}
    told: dict[str, Any] = {
        how: sorted(code for code, loudest in left.items() if loudest == how) for how in HOW
    }
    findings = study.get("findings") or ()
    told["no_line"] = sorted({one["code"] for one in findings if one["where"] is None})
    told["no_remedy"] = sorted(
        {one["code"] for one in findings if not one["helps"] and one["no_remedy"] is None}
    )
    return told


def main() -> int:
    """Ask, one recording after another, and keep what was said after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="of recordings, or patterns of names")
    parser.add_argument("--again", action="store_true", help="ask those that were asked before")
    options = parser.parse_args()
    every = recordings()
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    kept = {name: one for name, one in kept.items() if name in every}
    for name, paths in every.items():
        named = any(fnmatch.fnmatch(name, pattern) for pattern in options.names)
        if named if options.names else options.again or name not in kept:
            kept[name] = said(opened(paths))
            print(name, " ".join(f"{how}: {kept[name][how]}" for how in HOW[:3]), flush=True)
            keep({one: kept[one] for one in every if one in kept}, KEPT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
