"""The windows of all ranks of a run, made ready to be replayed together."""

from collections.abc import Sequence
from typing import Final

from gapless.capture.reread import ReplayWindow
from gapless.catalogue.queries.ranks import rank_marks, rank_waits
from gapless.model.evidence import Evidence
from gapless.pricing.simulators.anchoring import OUTSIDE, ahead_of, drift_of, unprofiled_ns
from gapless.replay.graph.nodes import Refusal
from gapless.replay.predict.joint_scene import RankWindow, make_joint_scene
from gapless.replay.predict.scene import PlainTarget, Scene

_DATA: Final = "idle.data"


def build_joint_scene(windows: Sequence[ReplayWindow], evidence: Evidence) -> Scene | Refusal:
    """Make the windows of all ranks ready, or return why they cannot be replayed."""
    data_ns = _marked_data(windows, evidence)
    is_marked = len(data_ns) == len(windows)
    plain_ns = unprofiled_ns(evidence, OUTSIDE) if is_marked else unprofiled_ns(evidence)
    target = PlainTarget(plain_ns, ahead_of(evidence), drift_of(evidence))
    members = [
        RankWindow(window.rank, window.joined, window.ledger, window.arrivals, window.first_step)
        for window in windows
    ]
    late_rank = _locate_slowest(windows, evidence)
    return make_joint_scene(members, target, data_ns if is_marked else {}, late_rank)


def _locate_slowest(windows: Sequence[ReplayWindow], evidence: Evidence) -> int | None:
    """Return the position of the rank that is named where one is late (G601)."""
    ranks = rank_waits.find_ranks(evidence)
    if not ranks:
        return None
    slowest, _ = rank_waits.find_slowest_rank(ranks)
    numbers = [window.rank for window in windows]
    return numbers.index(slowest.rank) if slowest.rank in numbers else None


def _marked_data(windows: Sequence[ReplayWindow], evidence: Evidence) -> dict[int, float]:
    """Return what a step of each rank waits for data, as light marks of all steps show."""
    processes = rank_marks.marked_processes(evidence)
    return {
        index: rank_marks.marked_ns(processes[window.rank], _DATA)
        for index, window in enumerate(windows)
        if window.rank in processes
    }
