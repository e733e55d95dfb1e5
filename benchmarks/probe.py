"""Measure a machine's constants as gapless does, and keep them with the method of each.

``python -m benchmarks.probe --out benchmarks/results/probe.json`` (``--device 0`` with a GPU,
``--file PATH`` for files that may be dropped from memory). What
identifies one machine, paths and GPU numbers, is left out.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import msgspec
from msgspec.structs import replace

from benchmarks.machine import machine, write_result
from gapless.launch import probing
from gapless.launch.probing import ProbeRequest
from gapless.model.machine import Constants
from gapless.report.sections.machine_constants import constant_lines


def main() -> None:
    """Run the probe in this interpreter."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", type=int)
    parser.add_argument("--path", default=tempfile.gettempdir())
    parser.add_argument("--file", action="append", default=[])
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    request = ProbeRequest(
        device=options.device,
        path=options.path,
        files=tuple(options.file),
        seconds=options.seconds,
    )
    constants = drop_identity(
        probing.measure(sys.executable, request, lambda step: print(step, flush=True))
    )
    write_result({"machine": machine(), "constants": msgspec.to_builtins(constants)}, options.out)
    print("\n".join(constant_lines(constants)))


def drop_identity(constants: Constants) -> Constants:
    """Leave out what identifies the machine rather than its kind."""
    if constants.place is None:
        return constants
    gpu = None if constants.place.gpu is None else replace(constants.place.gpu, uuid=None)
    return replace(constants, place=replace(constants.place, executable="python", gpu=gpu))


if __name__ == "__main__":
    main()
