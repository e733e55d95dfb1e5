"""What-ifs of drawn trainings, to the microsecond."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from gapless.accounting import partition
from gapless.model.change import Copied, Drop, Hosted, Merge, Omit, Scale
from gapless.model.edit import Where
from gapless.model.interval import Interval
from gapless.model.leaf import LEAVES
from gapless.replay.changes import How, apply
from gapless.replay.copies import USUAL_RATES
from gapless.replay.cuts import going
from gapless.replay.nodes import Op
from gapless.replay.retimed import retimed
from gapless.replay.scene import Scene
from gapless.replay.simulate import simulate
from gapless.replay.tiling import tiled
from tests.accounting.drawing import US, Act, Frame
from tests.replay import windows
from tests.replay.windows import Step, lengths

PINNED = Copied(pinned=True)
TRAININGS: dict[str, tuple[Step, int]] = {
    "reading": (windows.reading, 1000),
    "staging": (windows.staging, 900),
    "handing": (windows.handing, 1200),
    "drawing-in": (windows.drawing_in, 1200),
    "waiting": (windows.waiting, 500),
    "queueing": (windows.queueing, 50),
    "looping": (windows.looping, 600),
}


@cache
def scene(name: str) -> Scene:
    step, period = TRAININGS[name]
    return windows.scene_of(windows.training(step, period))


def by(factor: float) -> Interval:
    return Interval(factor, factor, factor)


@pytest.mark.parametrize("name", TRAININGS)
def test_no_change_changes_nothing(name: str) -> None:
    one = scene(name)
    assert lengths(one) == (one.unchanged(0.0) / US).tolist()


def test_a_read_back_that_goes_lets_the_host_run_ahead() -> None:
    assert lengths(scene("reading")) == [1000] * 4
    assert lengths(scene("reading"), Omit(("aten::item",))) == [804] * 4


def test_a_synchronisation_that_goes_leaves_the_copy_in_place() -> None:
    assert lengths(scene("reading"), Drop(("idle.sync",))) == [808] * 4


def test_calls_of_which_half_stay_gain_half() -> None:
    assert lengths(scene("reading"), Omit(("aten::item",), keep=0.5)) == [902] * 4


def test_calls_of_which_all_stay_gain_nothing() -> None:
    assert lengths(scene("reading"), Omit(("aten::item",), keep=1.0)) == [1000] * 4


def test_a_pattern_that_matches_nothing_changes_nothing() -> None:
    assert lengths(scene("reading"), Omit(("aten::nonzero",))) == [1000] * 4


def test_without_stacks_a_line_selects_all_calls() -> None:
    omit = Omit(("aten::item",), line=Where("train.py", 3))
    assert lengths(scene("reading"), omit) == [804] * 4


def by_line(at: int, number: int) -> tuple[list[Frame], list[Act]]:
    """Read two numbers back, in two functions of the user's."""
    frames, acts = windows.reading(at, number)
    functions = [("train.py(1): train", 0, 1000), ("src/logs.py(7): log", 90, 570)]
    stacks = [windows.frame("py", at + lo, at + hi, name) for name, lo, hi in functions]
    return [*stacks, *frames, windows.frame("op", at + 700, at + 800, "aten::item")], acts


@pytest.mark.parametrize(
    ("where", "takes"),
    [
        (Where("/project/src/logs.py", 9), 804),
        (Where("logs.py", 9, "Logger.log"), 804),
        (Where("logs.py", 5), 1000),
        (Where("train.py", 3), 804),
        (Where("other.py", 9), 1000),
    ],
)
def test_calls_below_a_line_go_where_stacks_were_recorded(where: Where, takes: int) -> None:
    one = windows.scene_of(windows.training(by_line, 1000))
    assert lengths(one, Omit(("aten::item",), line=where)) == [takes] * 4


def test_changes_that_overlap_take_nothing_twice() -> None:
    both = (Omit(("aten::item",)), Omit(("cudaStreamSynchronize",)), Drop(("idle.sync",)))
    assert lengths(scene("reading"), *both) == [804] * 4


def test_activities_by_leaf_or_name_take_another_time() -> None:
    assert lengths(scene("queueing"), Scale(by(0.5), names=("tensorop*",))) == [254] * 4
    assert lengths(scene("queueing"), Scale(by(0.5), leaves=("busy.",))) == [254] * 4
    assert lengths(scene("queueing"), Scale(by(0.0), leaves=("copy.h2d",))) == [304] * 4


def test_python_takes_another_time() -> None:
    assert lengths(scene("looping"), Hosted(("idle.host.python",), by(0.5))) == [500] * 4


def test_launches_take_another_time() -> None:
    assert lengths(scene("looping"), Hosted(("idle.launch.api",), by(0.5))) == [576] * 4


def test_many_launches_become_few() -> None:
    merged = Merge(("Optimizer.step#*",), launches=2)
    assert lengths(scene("looping"), merged) == [300] * 4


def test_what_a_step_calls_back_keeps_its_launches() -> None:
    def step(at: int, number: int) -> tuple[list[Frame], list[Act]]:
        frames, acts = windows.looping(at, number)
        node = "autograd::engine::evaluate_function: MulBackward0"
        return [*frames, windows.frame("op", at + 260, at + 290, node)], acts

    one = windows.scene_of(windows.training(step, 600))
    merged = Merge(("Optimizer.step#*",), launches=2)
    assert (
        lengths(one, merged) == [600 - 210 // 2] * 4
    )  # four of eight launches are the optimizer's


def test_no_more_launches_than_there_are() -> None:
    merged = Merge(("Optimizer.step#*",), launches=9)
    assert lengths(scene("looping"), merged) == [600] * 4


def test_work_that_goes_by_its_leaf_leaves_its_launches() -> None:
    assert lengths(scene("queueing"), Drop(("busy.",))) == [104] * 4
    assert lengths(scene("queueing"), Drop(("busy.",), keep=0.5)) == [254] * 4


def test_what_is_launched_in_calls_stays_or_goes_with_them() -> None:
    """Half of the copies go with their calls; the other half is as long as it was."""
    drop = Drop(("copy.h2d", "idle.h2d.host"), keep=0.5)
    assert lengths(scene("queueing"), drop) == [(404 + 302) / 2] * 4


def test_pinned_copies_are_not_staged_and_still_waited_for() -> None:
    assert lengths(scene("staging"), Copied(pinned=True)) == [726] * 4


def test_who_pins_gives_workers_memory_back_too() -> None:
    """2.5 MB at 0.1 ns a byte; memory of the training process itself it gives back as before."""
    own, shared = lengths(scene("drawing-in"), PINNED), lengths(scene("handing"), PINNED)
    assert own == [726 + 300] * 4
    assert shared == [726 + 300 - 250] * 4


def test_no_more_python_goes_than_there_was() -> None:
    how = How(replace(USUAL_RATES, let_go=by(0.8)))
    one = scene("handing")
    found = one.changed([PINNED], 0.0, how) / US
    assert found.tolist() == pytest.approx([726] * 4, abs=12)
    assert (found > 700).all()


def test_copies_that_are_not_waited_for_free_the_host() -> None:
    assert lengths(scene("staging"), Copied(pinned=True, non_blocking=True)) == [620] * 4


def test_copies_from_pinned_memory_that_were_waited_for_are_not() -> None:
    """The host is free for 104 µs more, and behind a copy comes the work, after a gap."""
    one = scene("waiting")
    assert sum((thread.ops == Op.SYNC).sum() for thread in one.graph.threads) == 5
    found = apply(one.view, one.graph, [Copied(non_blocking=True)])
    assert not any((thread.ops == Op.SYNC).any() for thread in found.threads)
    assert max(lengths(one, Copied(non_blocking=True))) < 500
    assert lengths(one, PINNED) == [500] * 4


def test_pageable_memory_keeps_the_call_waiting_but_not_the_synchronisation() -> None:
    assert lengths(scene("staging"), Copied(non_blocking=True)) == [894] * 4


def test_copies_a_batch_ahead_leave_the_work_alone() -> None:
    ahead = Copied(pinned=True, non_blocking=True, ahead=True)
    assert lengths(scene("queueing"), ahead) == [304] * 4  # 300, a gap, 2 % of 100 beside it


def test_what_is_left_of_a_segment_comes_before_the_next_anchor() -> None:
    one = scene("reading")
    found = apply(one.view, one.graph, [Omit(("aten::item",))])
    main = found.threads[0]
    assert Op.SYNC not in main.ops
    launches = np.flatnonzero(main.ops == Op.LAUNCH)
    assert main.amounts[launches[1]].sum() == (610 - 36 - 460) * US
    assert len(found.work.duration) == 10


def test_a_replay_is_a_trace_like_any_other() -> None:
    one = scene("reading")
    same = retimed(one.view, one.graph, one.graph, simulate(one.graph))
    before = one.view.joined.threads.trace
    assert same.events.start.tolist() == before.events.start.tolist()
    assert same.events.end.tolist() == before.events.end.tolist()


def test_the_account_of_a_prediction_is_that_of_its_trace() -> None:
    one, changes = scene("reading"), [Omit(("aten::item",))]
    after = apply(one.view, one.graph, changes)
    played = simulate(after)
    made = retimed(one.view, one.graph, after, played, going(one.view, one.graph, changes))
    ledger = partition(made)
    assert [row.end for row in ledger.rows] == played.steps.tolist()
    busy = np.array([leaf.startswith("busy.") for leaf in LEAVES], bool)[ledger.leaf]
    length = (ledger.end - ledger.start)[busy]
    assert np.bincount(ledger.row[busy], length).tolist() == [800 * US] * 5


def test_steps_played_on_are_like_those_that_were_seen() -> None:
    one = scene("queueing")
    many = tiled(one.graph, 6)
    assert len(many.steps) == 1 + 6 * 4
    assert np.diff(simulate(many).steps).tolist() == [404 * US] * 24
    assert len(many.counted) == 24
