"""What windows cost a long run: ``python -m benchmarks.windows_share RUN`` reads a recorded one.

Counted are the marks of our own work on the training thread (opening, closing and saving windows,
and writing records) and what the steps under the profiler took longer than the median of the
others of their tenth of the run. Docs: benchmarks/README.md.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import keep
from gapless import wire
from gapless.model.recording import Process
from gapless.store.recordings import load
from gapless.study.recorded.edges import edges, unprofiled

_NEAR = 20  # tenths of the run, halved: steps are compared with those near them


def share(process: Process) -> dict[str, Any]:
    """Give seconds and shares of one training process."""
    ends = edges(process).ends
    lengths, free = np.diff(ends), unprofiled(process, ends)
    marks = process.marks
    ours = marks.kind == wire.OBSERVER
    took = marks.end - marks.start
    seconds = {
        name: float(took[ours & (marks.value == value)].sum()) / 1e9
        for name, value in (("windows", wire.OBSERVER_WINDOW), ("writing", wire.OBSERVER_FLUSH))
    }
    own = np.zeros(len(lengths))
    for start, end in zip(marks.start[ours], marks.end[ours], strict=True):
        at = int(np.searchsorted(ends, start, side="right")) - 1
        if 0 <= at < len(own):
            own[at] += end - start
    slower = 0.0
    for at in np.flatnonzero(~free):
        near = slice(max(0, at - len(lengths) // _NEAR), at + len(lengths) // _NEAR + 1)
        usual = np.median(lengths[near][free[near]])
        slower += float(lengths[at] - own[at] - usual)
    seconds["slower steps"] = slower / 1e9
    wall = float(ends[-1] - process.start) / 1e9
    return {
        "wall_s": wall,
        "steps": len(ends),
        "profiled_steps": int((~free).sum()),
        "windows": [
            {
                "first_step": one.first_step,
                "last_step": one.last_step,
                "stacks": one.stacks,
                "stop_s": None if one.stop_ns is None else one.stop_ns / 1e9,
                "save_s": None if one.save_ns is None else one.save_ns / 1e9,
            }
            for one in process.windows
        ],
        "seconds": seconds,
        "share": sum(seconds.values()) / wall,
    }


def main() -> None:
    """Read a run, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--device", help="what the run was made on, for the result")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    recording = load(options.run)
    trained = [one for one in recording.processes if one.role == "training" and len(one.marks)]
    result = {
        "command": [Path(one).name for one in recording.manifest.command],
        "device": options.device,
        "versions": dict(trained[0].versions),
        "processes": [share(one) for one in trained],
    }
    print(keep(result, options.out))


if __name__ == "__main__":
    main()
