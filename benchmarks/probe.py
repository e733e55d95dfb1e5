"""Measure a machine's constants as gapless does, and keep them with the method of each.

``python -m benchmarks.probe --out benchmarks/results/probe.json`` (``--device 0`` with a GPU,
``--ranks 2`` for collectives, ``--file PATH`` for files that may be dropped from memory). What
identifies one machine, paths and GPU numbers, is left out.
"""

import argparse
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.machine import keep, machine
from gapless.launch import probing
from gapless.launch.probing import Asked
from gapless.model.machine import Constants
from gapless.report.machine_constants import lines


def main() -> None:
    """Run the probe in this interpreter."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", type=int)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--path", default=tempfile.gettempdir())
    parser.add_argument("--file", action="append", default=[])
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    asked = Asked(
        device=given.device,
        path=given.path,
        files=tuple(given.file),
        ranks=given.ranks,
        seconds=given.seconds,
    )
    found = nameless(probing.measure(sys.executable, asked, lambda what: print(what, flush=True)))
    keep({"machine": machine(), "constants": asdict(found)}, given.out)
    print("\n".join(lines(found)))


def nameless(found: Constants) -> Constants:
    """Leave out what identifies the machine rather than its kind."""
    if found.place is None:
        return found
    gpu = None if found.place.gpu is None else replace(found.place.gpu, uuid=None)
    return replace(found, place=replace(found.place, executable="python", gpu=gpu))


if __name__ == "__main__":
    main()
