"""What planted trainings are measured under: memory, stops of the machine, the work of others."""

import itertools
import math
import os
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from benchmarks.planted import asking, truth, working
from benchmarks.planted.recorder import recorder
from benchmarks.planted.running import Lane, RunError, run
from benchmarks.planted.scripts import Script
from benchmarks.planted.stops import Turn, stopped_turns
from benchmarks.planted.working import driver_processors, run_in_lanes
from gapless.catalogue.fixes.host.malloc import VARIABLES

TRAINING = Script("two", "o/r", "0" * 40, "train.py", {"train.py": ""})
STEPS = 30  # of a turn
TURNS = 6
SLOWER = 1.2  # the planted side's step
Stops = Mapping[tuple[int, int, int], float]  # start, side, step: by how many steps it stops


def pairs_with(stops: Stops, starts: int = 2) -> list[truth.Pair]:
    """Return turns of two sides, one of them slower, that stop where it is said."""
    pairs: list[truth.Pair] = []
    for start in range(starts):
        for first in range(5 + start, 5 + start + TURNS * STEPS, STEPS):  # starts begin elsewhere
            sides = [
                [
                    step_s * (1 + (step % 7) / 100 + stops.get((start, side, step), 0.0))
                    for step in range(first, first + STEPS)
                ]
                for side, step_s in enumerate((0.01, 0.01 * SLOWER))
            ]
            healthy_s, planted_s = (sum(seconds) / STEPS for seconds in sides)
            turn = Turn(0, first, (sides[0], sides[1]))
            pairs.append(truth.Pair(healthy_s, planted_s, 0.0, start, turn))
    return pairs


def measure(stops: Stops, starts: int = 2) -> truth.Truth:
    return truth.truth_of(pairs_with(stops, starts), STEPS, 1.0)


@pytest.mark.parametrize("side", [0, 1])
def test_a_stop_of_the_machine_on_one_side_is_left_out(side: int) -> None:
    undisturbed = measure({})
    assert (undisturbed.stopped, len(undisturbed.starts)) == (0, 2 * TURNS)
    measured = measure({(0, side, 70): 12.0})
    assert (measured.stopped, len(measured.starts)) == (1, 2 * TURNS - 1)
    assert measured.mid == pytest.approx(SLOWER)
    assert measured.left_out == 0


@pytest.mark.parametrize("side", [0, 1])
def test_a_turn_in_which_the_machine_hardly_works_is_left_out(side: int) -> None:
    slow_turn = {(1, side, step): 11.0 for step in range(36, 66)}
    measured = measure(slow_turn)
    assert measured.stopped == 1
    assert measured.mid == pytest.approx(SLOWER)
    of_the_training = {(start, side, step): 11.0 for start in (0, 1) for step in range(36, 66)}
    assert measure(of_the_training).stopped == 0


@pytest.mark.parametrize("side", [0, 1])
def test_a_stall_that_comes_again_keeps_its_cost(side: int) -> None:
    each_hundred = {(start, side, step): 12.0 for start in (0, 1) for step in (50, 150)}
    at_random = {(0, side, 40): 12.0, (1, side, 133): 4.0}
    at_one_step_of_each_start = {(0, side, 100): 12.0, (1, side, 100): 12.0}
    for stops in (each_hundred, at_random, at_one_step_of_each_start):
        assert measure(stops).stopped == 0
        assert (measure(stops).mid > SLOWER) == (side == 1)


@pytest.mark.parametrize(
    ("stop_s", "is_left_out"), [(0.3, False), (0.45, False), (0.6, False), (0.7, True), (3.0, True)]
)
def test_a_stop_is_left_out_on_either_side_or_on_neither(
    stop_s: float, *, is_left_out: bool
) -> None:
    for side in (0, 1):
        turns: list[Turn] = []
        for start, number in itertools.product((0, 1), range(4)):
            sides = [0.1] * 50, [0.25] * 50
            if (start, number) == (0, 2):
                sides[side][7] += stop_s
            turns.append(Turn(start, 50 * number, sides))
        assert stopped_turns(turns) == ({2} if is_left_out else set())


def test_what_is_long_on_both_sides_is_no_stop() -> None:
    evaluation = {(0, side, 70): 12.0 / (1 + 0.2 * side) for side in (0, 1)}
    assert measure(evaluation).stopped == 0
    slower = {(start, side, 70): 12.0 + 24 * side for start in (0, 1) for side in (0, 1)}
    assert measure(slower).stopped == 0


def test_a_stop_is_one_only_if_another_start_did_that_step() -> None:
    assert measure({(0, 1, 70): 12.0}, starts=1).stopped == 0
    assert measure({(0, 1, 5): 12.0}).stopped == 0  # the second start's turns begin behind it
    assert measure({(0, 1, 70): 1.9}).stopped == 0  # not long enough
    timeless = [Turn(start, 0, ([0.0] * 3, [1.0] * 3)) for start in (0, 1)]
    assert stopped_turns(timeless) == set()


def test_no_more_than_a_quarter_of_the_pairs_is_left_out_for_stops() -> None:
    pairs = pairs_with({(0, 0, 70): 20.0, (1, 1, 40): 12.0})
    assert len(truth.drop_stopped(pairs)) == len(pairs) - 2
    few_pairs = [pairs[2], pairs[8], pairs[1], pairs[7]]  # both stops, and the same steps again
    assert truth.drop_stopped(few_pairs) == [pairs[8], pairs[1], pairs[7]]
    assert truth.drop_stopped(few_pairs[:3]) == few_pairs[:3]


def test_starts_count_alike_however_many_pairs_they_have() -> None:
    pairs = [truth.Pair(1.0, 1.2, 0.0, 0)] * 6 + [truth.Pair(1.0, 1.4, 0.0, 1)] * 2
    measured = truth.truth_of(pairs, 1, 1.0)
    assert measured.mid == pytest.approx(math.sqrt(1.2 * 1.4))
    kept = measured.plain()
    for judged in (truth.with_starts(kept, None), truth.with_own_starts(kept, 0.01)):
        assert judged["mid"] == pytest.approx(measured.mid)
    ratios = [math.log(1.2)] * 6 + [math.log(1.4)] * 2
    error = statistics.stdev(ratios) * math.sqrt(1 / 6 + 1 / 2) / 2
    assert math.log(measured.high / measured.mid) == pytest.approx(1.89 * error)
    for name in ("low", "high"):
        assert truth.with_starts(kept, None)[name] == pytest.approx(kept[name])


def test_a_kept_truth_has_the_interval_of_its_pairs_whatever_was_kept() -> None:
    measured = truth.truth_of([truth.Pair(1.0, 1.0, 0.0)] * 7 + [truth.Pair(1.0, 9.0, 0.0)], 1, 1.0)
    kept = measured.plain()
    once = kept | {"low": 1.3, "mid": 1.32, "high": 1.34, "verdict": "faulty"}
    for spread in (None, 0.02):
        assert truth.with_starts(once, spread) == truth.with_starts(kept, spread)
        assert truth.with_own_starts(once, spread) == truth.with_own_starts(kept, spread)
    assert truth.with_starts(once, None)["verdict"] == measured.verdict == "undecided"
    assert truth.half_width(once) == truth.half_width(kept)


@pytest.mark.parametrize(
    "pairs",
    [
        [],
        [truth.Pair(1.0, 1.2, 0.0)],
        [truth.Pair(0.0, 1.2, 0.0)] * 4,
        [truth.Pair(1.0, 0.0, 0.0)] * 4,
    ],
)
def test_pairs_that_tell_nothing_are_no_truth(pairs: list[truth.Pair]) -> None:
    with pytest.raises(RunError):
        truth.truth_of(pairs, 1, 1.0)


def test_pairs_left_out_for_stops_are_summed_over_occasions() -> None:
    measured = measure({(0, 1, 70): 12.0})
    again = truth.joined(measured.plain(), measured)
    assert again["stopped"] == 2
    before = {name: value for name, value in measured.plain().items() if name != "stopped"}
    assert truth.joined(before, measured)["stopped"] == 1


def test_memory_is_kept_unless_it_was_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    lane = Lane(0, (), "cpu", tmp_path)
    environment = lane.environment(TRAINING, tmp_path)
    assert {name: environment[name] for name in VARIABLES} == VARIABLES == recorder(lane)["memory"]
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    own = Lane(0, (), "cpu", tmp_path).counting_environment(TRAINING, tmp_path)
    assert own["MALLOC_TRIM_THRESHOLD_"] == "131072"
    assert own["MALLOC_MMAP_MAX_"] == VARIABLES["MALLOC_MMAP_MAX_"]


def test_a_case_goes_on_with_the_memory_that_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    lane = Lane(0, (), "cpu", tmp_path)
    assert lane.of_record({"step_s": 0.1}) == lane
    assert lane.of_record({"truth": None, "recorder": recorder(lane)}) == lane
    earlier_cases: list[dict[str, Any]] = [
        {"truth": None},
        {"recorded": True, "recorder": {"cores": 2}},
        {"earlier": {}},
    ]
    for kept in earlier_cases:
        environment = lane.of_record(kept).environment(TRAINING, tmp_path)
        assert not VARIABLES.keys() & environment.keys()


@pytest.mark.parametrize(
    ("shares", "until", "told"),
    [
        ([0.01, 0.0], math.inf, (0, 0)),
        ([None], math.inf, (0, 0)),
        ([0.3, 0.02], math.inf, (1, 1)),
        ([0.3, 0.1, 0.2], math.inf, (1, 2)),
        ([0.06, None, 0.08], math.inf, (0, 2)),  # of one it is not known
        ([0.06, None, 0.04], math.inf, (2, 2)),
        ([0.3, RunError("too slow"), 0.4], math.inf, (0, 2)),
        ([0.3, 0.0], 0.0, (0, 0)),  # no time is left
    ],
)
def test_a_recording_made_beside_others_is_made_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shares: list[float | RunError | None],
    until: float,
    told: tuple[int, int],
) -> None:
    packed: list[str] = []
    monkeypatch.setattr(asking, "check", Mock())
    monkeypatch.setattr(asking, "foreign_share", Mock(side_effect=shares))
    monkeypatch.setattr(asking, "_pack", lambda runs, *_: packed.append(runs.name))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType, reportUnknownMemberType]
    lane = Lane(0, (), "cpu", tmp_path)
    row = asking.record(TRAINING, tmp_path, lane, tmp_path / "a.tar.zst", (1.0, until))
    kept, made_again = told
    assert packed == [str(kept)]
    assert row == {"foreign": shares[kept], "made_again": made_again}


def test_a_script_that_cannot_be_recorded_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "check", Mock(side_effect=RunError("no window")))
    with pytest.raises(RunError, match="no window"):
        asking.record(TRAINING, tmp_path, Lane(0, (), "cpu", tmp_path), tmp_path, (1.0, 0.0))


def test_nothing_is_known_of_others_where_nothing_was_recorded(tmp_path: Path) -> None:
    assert asking.foreign_share(tmp_path) is None
    (tmp_path / "run").mkdir()
    assert asking.foreign_share(tmp_path) is None


@pytest.mark.parametrize(
    ("cores", "expected"),
    [
        ([(0, 1), (2, 3)], {4, 5}),  # what no lane has
        ([(0, 1, 2), (3, 4, 5)], {0, 1, 2}),  # nothing is left: the lane's own
        ([(), (3, 4)], set[int]()),
    ],
)
def test_what_drives_a_lane_stays_off_the_processors_of_others(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cores: Sequence[tuple[int, ...]],
    expected: set[int],
) -> None:
    monkeypatch.setattr(working, "can_pin", Mock(return_value=True))
    monkeypatch.setattr(os, "sched_getaffinity", Mock(return_value=set(range(6))))
    lanes = [Lane(number, row, "cpu", tmp_path) for number, row in enumerate(cores)]
    assert driver_processors(lanes[0], lanes) == expected
    monkeypatch.setattr(working, "can_pin", Mock(return_value=False))
    assert driver_processors(lanes[0], lanes) == set()


def test_a_lane_binds_its_own_thread_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working, "can_pin", Mock(return_value=True))
    before = os.sched_getaffinity(0)
    lanes = [Lane(0, tuple(before)[:1], "cpu", tmp_path)]
    seen: list[set[int]] = []

    def act(_: Lane) -> str:
        seen.append(os.sched_getaffinity(0))
        return ""

    tasks: list[tuple[str, Callable[[Lane], str]]] = [("cpu", act)]
    run_in_lanes(lanes, tasks, math.inf)
    assert seen == [before - set(lanes[0].cores) or before]
    assert os.sched_getaffinity(0) == before


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    begin, n_threads = time.monotonic(), threading.active_count()
    environment = {"PATH": os.environ["PATH"]}
    printed = run(["sh", "-c", "echo so far; sleep 60"], tmp_path, (environment, ()), 0.5)
    assert printed == "so far (ended after 0 s)"
    assert run(["echo", "done"], tmp_path, (environment, ()), 30.0) == "done"
    assert time.monotonic() - begin < 20
    assert threading.active_count() == n_threads
