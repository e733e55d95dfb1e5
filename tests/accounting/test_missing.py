"""Traces that lack something: what depends on it is missing, and the rest stands."""

import ctypes
import sys

import numpy as np
import pytest
from msgspec.structs import asdict, replace

from gapless.accounting import partition, sum_ledgers
from gapless.accounting.host.nesting import build_forest, lane_of
from gapless.accounting.host.stages import NO_STAGES
from gapless.accounting.intervals import Lane, slice_lane
from gapless.accounting.memory import release_memory
from gapless.accounting.partition import join_trace
from gapless.model.category import RUNTIME
from gapless.model.trace import Events
from tests.accounting.drawing import Act, Call, Drawing, Frame, draw


def test_a_trace_of_nothing_gives_an_empty_account() -> None:
    ledger = partition(draw(Drawing()).trace)
    totals = sum_ledgers([ledger])
    assert (len(ledger), ledger.rows, ledger.step_rule) == (0, (), "none")
    assert (ledger.main_track, ledger.launches_recorded, ledger.clock_error_ns) == (-1, None, 0)
    assert (totals.wall_ns, totals.steps, totals.leaves) == (0, None, {})
    assert sum_ledgers([]).wall_ns == 0


def test_without_launches_idle_time_is_unrecorded() -> None:
    acts = [Act("a", 0, 10, None), Act("b", 15, 20, None)]
    ledger = partition(draw(Drawing(acts, [Frame("op", 0, 20)], [0, 30])).trace)
    totals = sum_ledgers([ledger])
    assert ledger.launches_recorded == 0.0
    assert totals.leaves["idle.unrecorded"] == 5
    assert totals.leaves["idle.host.python"] == 10  # after the last: what main did
    assert totals.groups["unknown"] == 5


def test_without_host_events_what_follows_the_last_work_is_unknown() -> None:
    inputs = draw(Drawing([Act("a", 0, 10, None)], overhead=[(0, 40)]))
    assert partition(inputs.trace).rows[0].end == 10
    acts = [Act("a", 0, 10, None), Act("b", 5, 40, None, device=1)]
    ledger = partition(draw(Drawing(acts)).trace)
    row_indices = [index for index, row in enumerate(ledger.rows) if row.device == 0]
    leaves = sum_ledgers([ledger], [row_indices]).leaves
    assert leaves == {"busy.tc_math": 10, "idle.unknown": 30}


def test_one_device_without_work_in_the_steps_has_a_row_all_the_same() -> None:
    acts = [Act("a", 0, 10, None), Act("b", 50, 60, Call(40, 41), device=1)]
    ledger = partition(draw(Drawing(acts, steps=[20, 60])).trace)
    assert [(row.device, row.start, row.end) for row in ledger.rows] == [(0, 20, 60), (1, 20, 60)]
    assert sum_ledgers([ledger], [[0]]).leaves == {"idle.host.python": 39, "idle.host.dispatch": 1}


def test_steps_without_any_other_event_are_python() -> None:
    ledger = partition(draw(Drawing(steps=[0, 10, 20])).trace)
    assert [row.device for row in ledger.rows] == [None, None]
    assert sum_ledgers([ledger]).leaves == {"idle.host.python": 20}


def test_the_clock_error_is_that_of_all_devices() -> None:
    acts = [
        Act("early", 10, 20, Call(13, 15), device=0),
        Act("a", 30, 40, Call(20, 21), device=1),
        Act("b", 42, 50, Call(41, 42), device=1),  # a gap of 2, below the error of 3
    ]
    ledger = partition(draw(Drawing(acts, steps=[0, 50])).trace)
    rows = [index for index, row in enumerate(ledger.rows) if row.device == 1]
    assert ledger.clock_error_ns == 3
    assert sum_ledgers([ledger], [rows]).leaves["idle.unrecorded"] == 2


def test_several_records_of_one_launch_are_the_first_and_longest() -> None:
    frames = [
        Frame("op", 30, 31, id="later", category=4, correlation=1),
        Frame("op", 10, 12, id="short", category=5, correlation=1),
        Frame("op", 10, 15, id="long", category=4, correlation=1),
    ]
    inputs = draw(Drawing([Act("k", 40, 50, None)], frames, [0, 50]))
    acts = join_trace(inputs.trace).activities
    assert [inputs.event_names[call] for call in acts.call] == ["long"]


def test_exact_duplicates_of_an_activity_are_removed() -> None:
    inputs = draw(Drawing([Act("k", 0, 10, None)], steps=[0, 10]))
    rows = np.array([*range(len(inputs.event_names)), 0])
    events = Events(**{name: column[rows] for name, column in asdict(inputs.trace.events).items()})
    assert len(join_trace(replace(inputs.trace, events=events)).activities) == 1


def test_joining_again_can_be_saved() -> None:
    inputs = draw(Drawing([Act("k", 5, 10, Call(0, 1))], steps=[0, 10]))
    ledger = partition(inputs.trace, joined_trace=join_trace(inputs.trace))
    assert ledger.leaf.tolist() == partition(inputs.trace, stages=NO_STAGES).leaf.tolist()


def test_a_ledger_that_does_not_tile_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_gaps(owners: Lane, *_: int) -> Lane:
        return slice_lane(owners, 0, 0)

    monkeypatch.setattr("gapless.accounting.device.devices.idle_gaps", no_gaps)
    inputs = draw(Drawing([Act("k", 5, 10, Call(0, 1))], steps=[0, 10]))
    with pytest.raises(AssertionError, match="does not tile its rows"):
        partition(inputs.trace)


def test_an_empty_forest_has_an_empty_lane() -> None:
    empty = np.empty(0, np.int64)
    assert len(lane_of(build_forest(empty, empty))) == 0


@pytest.mark.parametrize(("platform", "opened"), [("darwin", 0), ("linux", 1)])
def test_memory_is_given_back_only_where_the_library_can(
    monkeypatch: pytest.MonkeyPatch, platform: str, opened: int
) -> None:
    loaded_names: list[object] = []

    def library_without_trim(name: object) -> object:
        loaded_names.append(name)
        return object()

    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(ctypes, "CDLL", library_without_trim)
    release_memory()
    assert len(loaded_names) == opened


def test_windows_whose_last_work_was_not_recorded_are_left_out() -> None:
    # Four steps of ten launches; the profiler stops when a device is two steps behind.
    calls = [(step * 1000 + index * 50, step < 2) for step in range(4) for index in range(10)]
    kept_starts = [start for start, is_known in calls if is_known]
    acts = [
        Act(f"{start}", 100 * index + 100, 100 * index + 200, Call(start, start + 10))
        for index, start in enumerate(kept_starts)
    ]
    lost_frames = [
        Frame("op", start, start + 10, name="cudaLaunchKernel", category=RUNTIME, correlation=start)
        for start, is_known in calls
        if not is_known
    ]
    ledger = partition(draw(Drawing(acts, lost_frames, [0, 1000, 2000, 3000, 4000])).trace)
    assert [row.left_out for row in ledger.rows] == [True, False, True, True]


def test_a_call_without_work_is_no_sign_that_a_window_was_cut() -> None:
    acts = [
        Act(f"{index}", index * 100 + 20, index * 100 + 50, Call(index * 100, index * 100 + 10))
        for index in range(40)
    ]
    call = Frame("op", 2050, 2060, name="cudaLaunchKernel", category=RUNTIME, correlation=99)
    ledger = partition(draw(Drawing(acts, [call], [0, 1000, 2000, 3000, 4000])).trace)
    assert [row.left_out for row in ledger.rows] == [True, False, False, False]
