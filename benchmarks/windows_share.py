"""What windows cost a long run: ``python -m benchmarks.windows_share RUN`` reads a recorded one.

Counted are the marks of our own work on the training thread (opening, closing and saving windows,
and writing records) and what the steps under the profiler took longer than the median of the
others of their tenth of the run. Docs: benchmarks/README.md.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import write_result
from gapless import wire
from gapless.model.recording import Process
from gapless.recorded.training.edges import find_edges, unprofiled_steps
from gapless.store.run.recordings import load

_NEIGHBOUR_PARTS = 20  # tenths of the run, halved: steps are compared with those near them


def cost_shares(process: Process) -> dict[str, Any]:
    """Return seconds and shares of one training process."""
    ends = find_edges(process).ends
    lengths, free = np.diff(ends), unprofiled_steps(process, ends)
    marks = process.marks
    is_own = marks.kind == wire.OBSERVER
    mark_ns = marks.end - marks.start
    seconds = {
        name: float(mark_ns[is_own & (marks.value == value)].sum()) / 1e9
        for name, value in (("windows", wire.OBSERVER_WINDOW), ("writing", wire.OBSERVER_FLUSH))
    }
    own_ns = np.zeros(len(lengths))
    for start, end in zip(marks.start[is_own], marks.end[is_own], strict=True):
        index = int(np.searchsorted(ends, start, side="right")) - 1
        if 0 <= index < len(own_ns):
            own_ns[index] += end - start
    slower = 0.0
    for index in np.flatnonzero(~free):
        neighbours = slice(
            max(0, index - len(lengths) // _NEIGHBOUR_PARTS),
            index + len(lengths) // _NEIGHBOUR_PARTS + 1,
        )
        usual = np.median(lengths[neighbours][free[neighbours]])
        slower += float(lengths[index] - own_ns[index] - usual)
    seconds["slower steps"] = slower / 1e9
    wall = float(ends[-1] - process.start) / 1e9
    return {
        "wall_s": wall,
        "steps": len(ends),
        "profiled_steps": int((~free).sum()),
        "windows": [
            {
                "first_step": window.first_step,
                "last_step": window.last_step,
                "stacks": window.stacks,
                "stop_s": None if window.stop_ns is None else window.stop_ns / 1e9,
                "save_s": None if window.save_ns is None else window.save_ns / 1e9,
            }
            for window in process.windows
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
    trainings = [
        process
        for process in recording.processes
        if process.role == "training" and len(process.marks)
    ]
    result = {
        "command": [Path(word).name for word in recording.manifest.command],
        "device": options.device,
        "versions": dict(trainings[0].versions),
        "processes": [cost_shares(process) for process in trainings],
    }
    print(write_result(result, options.out))


if __name__ == "__main__":
    main()
