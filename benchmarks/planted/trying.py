"""Try the faults of a half: on how many scripts each applies, and whether it runs on two of them.

    python -m benchmarks.planted.trying --half unseen --sources CLONES --out DIR

Several are planted in one script at a time, and one by one where that does not run. What is
measured here means nothing: it is to be seen that what was planted runs. ``DIR/tried.json`` keeps
what ran, so that the same command goes on where it ended.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.planted.cases import Case, Half
from benchmarks.planted.mutations.catalogue import MUTATIONS, OPEN, SEALED
from benchmarks.planted.mutations.plant import Site, plant
from benchmarks.planted.running import Lane, RunError, prepare, run_arm
from benchmarks.planted.scripts import Script, content, mend_file, scripts
from benchmarks.planted.source import parse
from benchmarks.planted.working import plant_case

_STEP_S: Final = 0.004  # as if a healthy step took so long: little is planted
_TOGETHER: Final = 6
_TWICE: Final = 2
_LIMIT_S: Final = 90.0


def main() -> int:
    """Print what applies where, then run what was not run twice so far."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--half", choices=("open", "unseen"), default="unseen")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--sources", type=Path, help="clones to read the scripts from")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--first", nargs="*", default=[], help="scripts to use before others")
    parser.add_argument("--total-seconds", type=float, default=1e9)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    applies = find_scripts(options.half, options.device, options.sources, options.first)
    for name, script_names in applies.items():
        if len(script_names) < _TWICE:
            print(f"{name} applies to {len(script_names)} scripts: {', '.join(script_names)}")
    end = time.monotonic() + options.total_seconds
    return _try_all(applies, options, end)


def find_scripts(
    half: Half, device: str, sources: Path | None, first: Sequence[str]
) -> dict[str, list[str]]:
    """List the scripts of a half to which each of its faults and decoys applies."""
    owners = [script for script in scripts().values() if script.sealed == (half == "unseen")]
    owners = [script for script in owners if device in script.devices]
    owners.sort(key=lambda script: first.index(script.name) if script.name in first else len(first))
    names: dict[str, list[str]] = {
        mutation.name: []
        for mutation in (SEALED if half == "unseen" else OPEN)
        if device in mutation.devices
    }
    for script in owners:
        for path in script.planted_in:
            text = mend_file(script, path, content(script, path, sources)).decode()
            site = Site(parse(text), _STEP_S, device, script.command(device))
            for name, script_names in names.items():
                if script.name not in script_names and plant(MUTATIONS[name], site) is not None:
                    script_names.append(script.name)
    return names


def _try_all(applies: Mapping[str, Sequence[str]], options: argparse.Namespace, end: float) -> int:
    path = options.out / "tried.json"
    outcomes: dict[str, dict[str, str]] = json.loads(path.read_text()) if path.exists() else {}
    n_failed = 0
    for script_name, names in group_waiting(applies, outcomes):
        if time.monotonic() > end:
            print("left for want of time")
            break
        failed = _run_together(script_name, names, options)
        singly = names if failed and len(names) > 1 else ()
        results = {
            name: _run_together(script_name, (name,), options) for name in singly
        } or dict.fromkeys(names, failed)
        for name, failure in results.items():
            outcomes.setdefault(name, {})[script_name] = failure
            if failure:
                n_failed += 1
                print(f"{name} in {script_name}: {failure[-700:]}", flush=True)
        path.write_text(json.dumps(outcomes, indent=1) + "\n")
    n_twice = sum(list(ran.values()).count("") >= _TWICE for ran in outcomes.values())
    print(f"{n_twice} of {len(applies)} ran on two scripts, {n_failed} failures")
    return 1 if n_failed else 0


def group_waiting(
    applies: Mapping[str, Sequence[str]], outcomes: Mapping[str, Mapping[str, str]]
) -> list[tuple[str, tuple[str, ...]]]:
    """Group what is still to be run by script, a few of different families at a time."""
    waiting: dict[str, list[str]] = defaultdict(list)
    for name, script_names in applies.items():
        ran = outcomes.get(name, {})
        needed = _TWICE - list(ran.values()).count("")
        for script_name in [other for other in script_names if other not in ran][: max(0, needed)]:
            waiting[script_name].append(name)
    return [
        (script_name, tuple(names[at : at + _TOGETHER]))
        for script_name, names in waiting.items()
        for at in range(0, len(names), _TOGETHER)
    ]


def _run_together(script_name: str, names: tuple[str, ...], options: argparse.Namespace) -> str:
    """Run a script with some faults in it; return what went wrong, or nothing."""
    script: Script = scripts()[script_name]
    with tempfile.TemporaryDirectory(prefix="gapless-tried-") as folder:
        root = Path(folder) / script_name
        lane = Lane(0, (), options.device, Path(folder), 1)
        try:
            prepare(script, root, options.sources)
            plant_case(Case(script_name, names, options.device, options.half), root, _STEP_S)
            run_arm(script, root, lane, 0.2, _LIMIT_S)
        except (RunError, SyntaxError) as error:
            return str(error) or "failed"
        finally:
            shutil.rmtree(root, ignore_errors=True)
    return ""


if __name__ == "__main__":
    sys.exit(main())
