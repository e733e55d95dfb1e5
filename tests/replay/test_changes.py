"""What-ifs of drawn trainings, to the microsecond."""

from functools import cache

import numpy as np
import pytest
from msgspec.structs import replace

from gapless.accounting import partition
from gapless.model.change import CopyChange, Drop, HostChange, Merge, Omit, Scale
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.leaf import LEAVES
from gapless.replay.edits.call_selection import find_cuts
from gapless.replay.edits.changes import ChangeParams, apply_changes
from gapless.replay.edits.copies import USUAL_RATES
from gapless.replay.graph.nodes import Op
from gapless.replay.graph.simulate import simulate
from gapless.replay.graph.tiling import tile_graph
from gapless.replay.predict.predicted_trace import retime_trace
from gapless.replay.predict.scene import Scene
from tests.accounting.drawing import US, Act, Frame
from tests.replay import windows
from tests.replay.windows import Step, step_lengths

PINNED = CopyChange(pinned=True)
TRAININGS: dict[str, tuple[Step, int]] = {
    "reading": (windows.readback_step, 1000),
    "staging": (windows.staged_copy_step, 900),
    "handing": (windows.worker_batch_step, 1200),
    "drawing-in": (windows.own_batch_step, 1200),
    "waiting": (windows.awaited_copy_step, 500),
    "queueing": (windows.queued_copy_step, 50),
    "looping": (windows.optimizer_loop_step, 600),
}


@cache
def make_scene(name: str) -> Scene:
    step, period = TRAININGS[name]
    return windows.scene_of(windows.draw_training(step, period))


def point_estimate(factor: float) -> Estimate:
    return Estimate(factor, factor, factor)


@pytest.mark.parametrize("name", TRAININGS)
def test_no_change_changes_nothing(name: str) -> None:
    scene = make_scene(name)
    assert step_lengths(scene) == (scene.unchanged_steps(0.0) / US).tolist()


def test_a_read_back_that_goes_lets_the_host_run_ahead() -> None:
    assert step_lengths(make_scene("reading")) == [1000] * 4
    assert step_lengths(make_scene("reading"), Omit(("aten::item",))) == [804] * 4


def test_a_synchronisation_that_goes_leaves_the_copy_in_place() -> None:
    assert step_lengths(make_scene("reading"), Drop(("idle.sync",))) == [808] * 4


def test_calls_of_which_half_stay_gain_half() -> None:
    assert step_lengths(make_scene("reading"), Omit(("aten::item",), keep=0.5)) == [902] * 4


def test_calls_of_which_all_stay_gain_nothing() -> None:
    assert step_lengths(make_scene("reading"), Omit(("aten::item",), keep=1.0)) == [1000] * 4


def test_a_pattern_that_matches_nothing_changes_nothing() -> None:
    assert step_lengths(make_scene("reading"), Omit(("aten::nonzero",))) == [1000] * 4


def test_without_stacks_a_line_selects_all_calls() -> None:
    omit = Omit(("aten::item",), line=Location("train.py", 3))
    assert step_lengths(make_scene("reading"), omit) == [804] * 4


def by_line(start: int, number: int) -> tuple[list[Frame], list[Act]]:
    """Read two numbers back, in two functions of the user's."""
    frames, acts = windows.readback_step(start, number)
    functions = [("train.py(1): train", 0, 1000), ("src/logs.py(7): log", 90, 570)]
    stacks = [windows.frame("py", start + lo, start + hi, name) for name, lo, hi in functions]
    return [*stacks, *frames, windows.frame("op", start + 700, start + 800, "aten::item")], acts


@pytest.mark.parametrize(
    ("location", "takes"),
    [
        (Location("/project/src/logs.py", 9), 804),
        (Location("logs.py", 9, "Logger.log"), 804),
        (Location("logs.py", 5), 1000),
        (Location("train.py", 3), 804),
        (Location("other.py", 9), 1000),
    ],
)
def test_calls_below_a_line_go_where_stacks_were_recorded(location: Location, takes: int) -> None:
    scene = windows.scene_of(windows.draw_training(by_line, 1000))
    assert step_lengths(scene, Omit(("aten::item",), line=location)) == [takes] * 4


def test_changes_that_overlap_take_nothing_twice() -> None:
    changes = (Omit(("aten::item",)), Omit(("cudaStreamSynchronize",)), Drop(("idle.sync",)))
    assert step_lengths(make_scene("reading"), *changes) == [804] * 4


def test_activities_by_leaf_or_name_take_another_time() -> None:
    assert (
        step_lengths(make_scene("queueing"), Scale(point_estimate(0.5), names=("tensorop*",)))
        == [254] * 4
    )
    assert (
        step_lengths(make_scene("queueing"), Scale(point_estimate(0.5), leaves=("busy.",)))
        == [254] * 4
    )
    assert (
        step_lengths(make_scene("queueing"), Scale(point_estimate(0.0), leaves=("copy.h2d",)))
        == [304] * 4
    )


def test_python_takes_another_time() -> None:
    assert (
        step_lengths(make_scene("looping"), HostChange(("idle.host.python",), point_estimate(0.5)))
        == [500] * 4
    )


def test_launches_take_another_time() -> None:
    assert (
        step_lengths(make_scene("looping"), HostChange(("idle.launch.api",), point_estimate(0.5)))
        == [576] * 4
    )


def test_many_launches_become_few() -> None:
    merge = Merge(("Optimizer.step#*",), launches=2)
    assert step_lengths(make_scene("looping"), merge) == [300] * 4


def test_what_a_step_calls_back_keeps_its_launches() -> None:
    def step(start: int, number: int) -> tuple[list[Frame], list[Act]]:
        frames, acts = windows.optimizer_loop_step(start, number)
        node = "autograd::engine::evaluate_function: MulBackward0"
        return [*frames, windows.frame("op", start + 260, start + 290, node)], acts

    scene = windows.scene_of(windows.draw_training(step, 600))
    merge = Merge(("Optimizer.step#*",), launches=2)
    assert (
        step_lengths(scene, merge) == [600 - 210 // 2] * 4
    )  # four of eight launches are the optimizer's


def test_no_more_launches_than_there_are() -> None:
    merge = Merge(("Optimizer.step#*",), launches=9)
    assert step_lengths(make_scene("looping"), merge) == [600] * 4


def test_work_that_goes_by_its_leaf_leaves_its_launches() -> None:
    assert step_lengths(make_scene("queueing"), Drop(("busy.",))) == [104] * 4
    assert step_lengths(make_scene("queueing"), Drop(("busy.",), keep=0.5)) == [254] * 4


def test_what_is_launched_in_calls_stays_or_goes_with_them() -> None:
    """Half of the copies go with their calls; the other half is as long as it was."""
    drop = Drop(("copy.h2d", "idle.h2d.host"), keep=0.5)
    assert step_lengths(make_scene("queueing"), drop) == [(404 + 302) / 2] * 4


def test_pinned_copies_are_not_staged_and_still_waited_for() -> None:
    assert step_lengths(make_scene("staging"), CopyChange(pinned=True)) == [726] * 4


def test_who_pins_gives_workers_memory_back_too() -> None:
    """2.5 MB at 0.1 ns a byte; memory of the training process itself it gives back as before."""
    own_lengths, shared_lengths = (
        step_lengths(make_scene("drawing-in"), PINNED),
        step_lengths(make_scene("handing"), PINNED),
    )
    assert own_lengths == [726 + 300] * 4
    assert shared_lengths == [726 + 300 - 250] * 4


def test_no_more_python_goes_than_there_was() -> None:
    params = ChangeParams(replace(USUAL_RATES, unmap_ns=point_estimate(0.8)))
    scene = make_scene("handing")
    lengths_us = scene.changed_steps([PINNED], 0.0, params) / US
    assert lengths_us.tolist() == pytest.approx([726] * 4, abs=12)
    assert (lengths_us > 700).all()


def test_copies_that_are_not_waited_for_free_the_host() -> None:
    assert (
        step_lengths(make_scene("staging"), CopyChange(pinned=True, non_blocking=True)) == [620] * 4
    )


def test_copies_from_pinned_memory_that_were_waited_for_are_not() -> None:
    """The host is free for 104 µs more, and behind a copy comes the work, after a gap."""
    scene = make_scene("waiting")
    assert sum((thread.ops == Op.SYNC).sum() for thread in scene.graph.threads) == 5
    changed_graph = apply_changes(scene.view, scene.graph, [CopyChange(non_blocking=True)])
    assert not any((thread.ops == Op.SYNC).any() for thread in changed_graph.threads)
    assert max(step_lengths(scene, CopyChange(non_blocking=True))) < 500
    assert step_lengths(scene, PINNED) == [500] * 4


def test_what_changes_of_pageable_copies_leaves_pinned_ones_waited_for() -> None:
    change = CopyChange(pinned=True, non_blocking=True, of_pageable=True)
    assert step_lengths(make_scene("waiting"), change) == [500] * 4
    assert step_lengths(make_scene("staging"), change) == [620] * 4


def test_pageable_memory_keeps_the_call_waiting_but_not_the_synchronisation() -> None:
    assert step_lengths(make_scene("staging"), CopyChange(non_blocking=True)) == [894] * 4


def test_copies_a_batch_ahead_leave_the_work_alone() -> None:
    ahead = CopyChange(pinned=True, non_blocking=True, ahead=True)
    assert (
        step_lengths(make_scene("queueing"), ahead) == [304] * 4
    )  # 300, a gap, 2 % of 100 beside it


def test_what_is_left_of_a_segment_comes_before_the_next_anchor() -> None:
    scene = make_scene("reading")
    changed_graph = apply_changes(scene.view, scene.graph, [Omit(("aten::item",))])
    main = changed_graph.threads[0]
    assert Op.SYNC not in main.ops
    launches = np.flatnonzero(main.ops == Op.LAUNCH)
    assert main.amounts[launches[1]].sum() == (610 - 36 - 460) * US
    assert len(changed_graph.work.duration) == 10


def test_a_replay_is_a_trace_like_any_other() -> None:
    scene = make_scene("reading")
    trace = retime_trace(scene.view, scene.graph, scene.graph, simulate(scene.graph))
    recorded_trace = scene.view.joined_trace.threads.trace
    assert trace.events.start.tolist() == recorded_trace.events.start.tolist()
    assert trace.events.end.tolist() == recorded_trace.events.end.tolist()


def test_the_account_of_a_prediction_is_that_of_its_trace() -> None:
    scene, changes = make_scene("reading"), [Omit(("aten::item",))]
    changed_graph = apply_changes(scene.view, scene.graph, changes)
    simulated = simulate(changed_graph)
    trace = retime_trace(
        scene.view,
        scene.graph,
        changed_graph,
        simulated,
        find_cuts(scene.view, scene.graph, changes),
    )
    ledger = partition(trace)
    assert [row.end for row in ledger.rows] == simulated.steps.tolist()
    busy = np.array([leaf.startswith("busy.") for leaf in LEAVES], bool)[ledger.leaf]
    length = (ledger.end - ledger.start)[busy]
    assert np.bincount(ledger.row[busy], length).tolist() == [800 * US] * 5


def test_steps_played_on_are_like_those_that_were_seen() -> None:
    scene = make_scene("queueing")
    tiled_graph = tile_graph(scene.graph, 6)
    assert len(tiled_graph.steps) == 1 + 6 * 4
    assert np.diff(simulate(tiled_graph).steps).tolist() == [404 * US] * 24
    assert len(tiled_graph.counted_steps) == 24
