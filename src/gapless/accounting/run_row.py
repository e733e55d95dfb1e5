"""The run row: a whole training process, charged by the light marks of its training thread.

Docs: the account, 10. It shows what a sampled window of steps cannot: epochs, checkpoints, the
collector, and how long the process lived before its first step and after its last.
"""

from typing import Final

import numpy as np
from msgspec import Struct

from gapless.accounting.intervals import Lane, cover, merge, subtract
from gapless.accounting.sweep import sweep_host
from gapless.model.leaf import DATA_STAGES
from gapless.model.trace import Int64

_BY_PRIORITY: Final = (  # the first that is open is charged
    ("unknown",),
    ("observer",),
    ("collector",),
    tuple(f"data.{stage}" for stage in DATA_STAGES),
    ("checkpoint",),
    ("logging",),
    ("profiling",),
    ("epoch-turn",),
    ("evaluation",),
    ("set-up",),
    ("step",),
    ("tear-down",),
)
RUN_LEAVES: Final[tuple[str, ...]] = tuple(leaf for leaves in _BY_PRIORITY for leaf in leaves)
RUN_LEAF: Final[dict[str, int]] = {leaf: code for code, leaf in enumerate(RUN_LEAVES)}
_PRIORITY: Final = np.array(
    [priority for priority, leaves in enumerate(_BY_PRIORITY) for _ in leaves], np.int64
)


class ThreadMarks(Struct, frozen=True):
    """What the recorder noted on the training thread, and collections on any thread."""

    start: Int64
    end: Int64
    leaf: Int64  # → RUN_LEAVES


class RunRow(Struct, frozen=True):
    """Pieces that tile the life of a process; ``culprit``: the mark (position), or −1."""

    start: Int64
    end: Int64
    leaf: Int64  # → RUN_LEAVES
    culprit: Int64

    def sum_by_leaf(self) -> dict[str, int]:
        """Sum the pieces by leaf, in ns; together they are the wall time of the process."""
        sums = np.zeros(len(RUN_LEAVES), np.int64)
        np.add.at(sums, self.leaf, self.end - self.start)
        return {RUN_LEAVES[code]: int(sums[code]) for code in np.flatnonzero(sums).tolist()}


def charge_life(life: tuple[int, int], steps: tuple[int, int] | None, marks: ThreadMarks) -> RunRow:
    """Charge ``life``, [start, exit), to marks, and below them to set-up, steps and tear-down.

    ``steps`` are the ends of the first and of the last step; a process that never stepped was
    setting up all its life.
    """
    start, stop = life
    first_end, last_end = (stop, stop) if steps is None else steps
    phase_leaves = np.array([RUN_LEAF["set-up"], RUN_LEAF["step"], RUN_LEAF["tear-down"]], np.int64)
    leaf = np.concatenate((marks.leaf, phase_leaves))
    lane = sweep_host(marks.start, marks.end, _PRIORITY[marks.leaf])
    bounds = np.array([start, first_end, last_end, stop])
    phases = Lane(bounds[:-1], bounds[1:], len(marks.leaf) + np.arange(len(phase_leaves)))
    has_time = phases.end > phases.start
    phases = Lane(phases.start[has_time], phases.end[has_time], phases.owner[has_time])
    lane = merge([lane, subtract(phases, lane)])  # below all marks: swept apart, crossings stay few
    cut = cover(Lane(np.array([start]), np.array([stop]), np.array([0])), lane.start, lane.end)
    inside = cut.piece >= 0
    owner = lane.owner[cut.query[inside]]
    culprit = np.where(owner < len(marks.leaf), owner, -1)
    return RunRow(cut.start[inside], cut.end[inside], leaf[owner], culprit)
