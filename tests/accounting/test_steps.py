"""Where steps begin and end, and which rows count."""

import random

import numpy as np
import pytest

from gapless.accounting import partition
from gapless.accounting.device.activities import collect_activities
from gapless.accounting.device.windows import find_searching, irregular_windows
from gapless.accounting.host.threads import sort_threads
from gapless.model import category
from gapless.model.ledger import Ledger
from tests.accounting.drawing import Act, Call, Drawing, Frame, draw


def make_ledger(frames: list[Frame], steps: list[tuple[int, int]] | None = None) -> Ledger:
    return partition(draw(Drawing([Act("k", 0, 1, None)], frames, steps or [])).trace)


def edges(ledger: Ledger) -> list[int]:
    return [ledger.rows[0].start, *(row.end for row in ledger.rows)]


def optimizer(end: int, name: str = "SGD", thread: str = "m") -> Frame:
    return Frame("opt", end - 5, end, thread, name=f"Optimizer.step#{name}.step")


def user_range(start: int, end: int, name: str, thread: str = "m") -> Frame:
    return Frame("range", start, end, thread, name=name)


def test_starts_of_profiler_steps_come_first() -> None:
    ledger = make_ledger([optimizer(30), optimizer(60)], [(10, 19), (20, 29), (30, 44)])
    assert (edges(ledger), ledger.step_rule) == ([10, 20, 30, 44], "ProfilerStep#")
    assert [row.step for row in ledger.rows] == [0, 1, 2]


def test_marks_of_own_windows_come_before_all() -> None:
    marks = [user_range(end - 1, end, "gapless:step") for end in (15, 35, 60)]
    ledger = make_ledger([*marks, optimizer(30), optimizer(50)], [(10, 19), (20, 29), (30, 44)])
    assert (edges(ledger), ledger.step_rule) == ([15, 35, 60], "gapless:step")
    assert [row.step for row in ledger.rows] == [1, 2]


def test_the_thread_of_own_marks_is_the_training_thread() -> None:
    marks = [user_range(end - 1, end, "gapless:step", "c") for end in (15, 35)]
    trace = draw(Drawing(frames=[*marks, optimizer(20), optimizer(30)])).trace
    assert trace.tracks[partition(trace).main_track].tid == "c"


def test_one_mark_bounds_no_step() -> None:
    ledger = make_ledger([user_range(14, 15, "gapless:step"), optimizer(30), optimizer(50)])
    assert ledger.step_rule == "Optimizer.step#SGD.step"


def test_profiler_steps_of_another_thread_are_no_steps() -> None:
    stray = user_range(0, 5, "ProfilerStep#9", "b")
    ledger = make_ledger([stray, Frame("op", 12, 14)], [(10, 19), (20, 29)])
    assert (edges(ledger), [row.step for row in ledger.rows]) == ([10, 20, 29], [0, 1])


def test_else_ends_of_the_optimizer_with_the_fewest_calls() -> None:
    often = [optimizer(end, "G") for end in (20, 40, 60, 80)]
    rare = [optimizer(30, "D"), optimizer(70, "D")]
    once = [optimizer(50, "E")]
    ledger = make_ledger([*often, *once, *rare, user_range(0, 9, "x"), user_range(10, 19, "x")])
    assert (edges(ledger), ledger.step_rule) == ([30, 70], "Optimizer.step#D.step")
    assert [row.step for row in ledger.rows] == [1]


def test_of_equally_rare_optimizers_the_first_seen() -> None:
    frames = [optimizer(20, "B"), optimizer(30, "A"), optimizer(50, "B"), optimizer(60, "A")]
    assert make_ledger(frames).step_rule == "Optimizer.step#B.step"


def test_else_starts_of_the_outermost_range_that_repeats() -> None:
    frames = [
        user_range(0, 100, "epoch"),
        *(user_range(start, start + 20, "batch") for start in (10, 40, 70)),
        *(user_range(start, start + 5, "forward") for start in (12, 42, 72, 80)),
        user_range(0, 3, "elsewhere", "b"),
        Frame("op", 10, 90),
    ]
    ledger = make_ledger(frames)
    assert (edges(ledger), ledger.step_rule) == ([10, 40, 70, 90], "batch")


def test_the_range_that_covers_most_time_makes_the_steps_from_the_first_as_frequent() -> None:
    frames = [
        *(user_range(start, start + 2, "eval") for start in (0, 4, 8, 92, 96)),
        *(user_range(start, start + 3, "load") for start in (10, 30, 50)),
        *(user_range(start, start + 15, "train_step") for start in (14, 34, 54)),
        Frame("op", 0, 99),
    ]
    ledger = make_ledger(frames)
    assert (edges(ledger), ledger.step_rule) == ([10, 30, 50, 53], "load")


def test_numbers_in_names_of_ranges_are_passed_over_where_no_name_recurs() -> None:
    frames = [user_range(start, start + 20, f"iteration {start}") for start in (10, 40, 70)]
    ledger = make_ledger([user_range(0, 99, "epoch 1"), *frames, Frame("op", 10, 90)])
    assert (edges(ledger), ledger.step_rule) == ([10, 40, 70, 90], "iteration #")


def test_else_a_step_begins_with_each_hand_over_of_a_loader() -> None:
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    frames = [Frame("data", start, start + 5, name=name) for start in (10, 40, 70)]
    ledger = make_ledger([*frames, Frame("op", 16, 30), Frame("op", 76, 90)])
    assert (edges(ledger), ledger.step_rule) == ([10, 40, 70], "batches of a DataLoader")


def module(start: int, end: int, name: str) -> Frame:
    name = f"nn.Module: {name}"
    return Frame("py", start, end, name=name, category=category.PYTHON_FUNCTION)


def test_else_with_each_call_of_an_outermost_module() -> None:
    inner = [module(start + 1, start + 6, "Linear_0") for start in (10, 40, 70)]
    outer = [module(start, start + 20, "Net_0") for start in (10, 40, 70)]
    ledger = make_ledger([*inner, *outer, Frame("op", 12, 15)])
    assert (edges(ledger), ledger.step_rule) == ([10, 40, 70, 90], "nn.Module: Net_0")


def operators(names: str, start: int = 0, pause: int = 0) -> list[Frame]:
    """Return an operator of 4 ns for each letter, each 5 ns after the last; "_" is a pause."""
    frames = list[Frame]()
    for letter in names:
        if letter != "_":
            frames.append(Frame("op", start, start + 4, name=f"aten::{letter}"))
        start += 5 if letter != "_" else pause
    return frames


def test_else_with_each_period_of_operators() -> None:
    ledger = make_ledger(operators("cdefgh_ab" * 5, pause=50))
    assert ledger.step_rule == "a period of 8 operators"
    assert edges(ledger) == [29, 119, 209, 299, 389], "from the pause on, which a step waits in"


@pytest.mark.parametrize(
    "names",
    [
        "abcabcabcabcabcabc",  # too short: a layer, say
        "abcdefghabcdefghabcdefgh",  # three rounds
        "abcdefghbadcfehgacbdefgh" * 2,  # no order
    ],
)
def test_what_is_no_period_makes_no_steps(names: str) -> None:
    assert make_ledger(operators(names)).step_rule == "none"


def test_layers_of_a_step_are_no_steps() -> None:
    step = "x" + "abcdefgh" * 6 + "yz"
    assert make_ledger(operators(step * 5)).step_rule == f"a period of {len(step)} operators"


def test_steps_that_differ_by_an_operator_are_steps_all_the_same() -> None:
    common = "".join(random.Random(0).choices("abcdefghijklmnopqrstuvw", k=130))
    ledger = make_ledger(operators((common + "y" + common + "z") * 5))
    assert ledger.step_rule == "a period of 131 operators"


def test_else_one_row_over_the_capture() -> None:
    ledger = make_ledger([Frame("op", 10, 90), optimizer(50), user_range(0, 100, "once")])
    assert (edges(ledger), ledger.step_rule) == ([0, 90], "none")
    assert [row.step for row in ledger.rows] == [None]


def test_ranges_that_only_repeat_inside_others_make_no_steps() -> None:
    inner = [user_range(start, start + 2, "inner") for start in (20, 30)]
    outer = [user_range(10, 50, "a"), user_range(11, 49, "a")]
    ledger = make_ledger([*inner, *outer, Frame("op", 0, 60)])
    assert (edges(ledger), ledger.step_rule) == ([0, 60], "none")


def test_a_capture_of_points_gives_no_rows() -> None:
    inputs = draw(Drawing([Act("k", 3, 3, None)], [Frame("op", 5, 5)]))
    ledger = partition(inputs.trace)
    assert (len(ledger), ledger.rows, ledger.launches_recorded) == (0, (), None)


@pytest.mark.parametrize(
    ("count", "aside"), [(1, ()), (2, ()), (3, (0,)), (5, (0,)), (6, (0, 5)), (9, (0, 8))]
)
def test_irregular_steps_are_left_out(count: int, aside: tuple[int, ...]) -> None:
    assert irregular_windows(count) == set(aside)


@pytest.mark.parametrize(
    ("n_launched", "n_operators", "searching"),
    [
        ((9, 9, 200), (5, 5, 3), (2,)),  # the last batch is smaller, and its kernels are tried
        ((9, 9, 200), (5, 5, 90), ()),  # more is done in it
        ((9, 9, 40), (5, 5, 5), ()),  # few launches
        ((9, 200, 200), (5, 5, 5), ()),  # most steps are like that
    ],
)
def test_steps_that_launch_more_for_no_more_operators_search_kernels(
    n_launched: tuple[int, ...], n_operators: tuple[int, ...], searching: tuple[int, ...]
) -> None:
    steps = range(0, 3000, 1000)
    acts = [
        Act(f"k{at}", at, at + 1, Call(at, at + 1))
        for start, count in zip(steps, n_launched, strict=True)
        for at in range(start, start + 4 * count, 4)
    ]
    frames = [
        Frame("op", at, at + 3)
        for start, count in zip(steps, n_operators, strict=True)
        for at in range(start, start + 10 * count, 10)
    ]
    threads = sort_threads(draw(Drawing(acts, frames)).trace)
    bounds = np.array([*steps, 3000], np.int64)
    activities = collect_activities(threads.trace, threads)
    assert find_searching(bounds, threads.trace, activities) == set(searching)


def test_the_training_thread_steps_else_runs_most() -> None:
    frames = [Frame("op", 0, 3), Frame("op", 4, 5, "b"), Frame("op", 6, 7, "b")]
    trace = draw(Drawing(frames=frames)).trace
    assert trace.tracks[partition(trace).main_track].tid == "b"
    stepping = [optimizer(20, thread="c"), optimizer(30, thread="c")]
    trace = draw(Drawing(frames=[Frame("op", 0, 3), *stepping])).trace
    assert trace.tracks[partition(trace).main_track].tid == "c"


@pytest.mark.parametrize("kind", [category.RUNTIME, category.DRIVER, category.PYTHON_FUNCTION])
def test_without_operators_calls_or_functions_tell_the_thread(kind: int) -> None:
    frames = [Frame("op", 0, 3, "b", category=kind, name="f"), Frame("gc", 5, 6)]
    trace = draw(Drawing(frames=frames)).trace
    assert trace.tracks[partition(trace).main_track].tid == "b"


def test_without_host_events_there_is_no_training_thread() -> None:
    inputs = draw(Drawing([Act("a", 0, 5, None), Act("b", 9, 12, None)]))
    ledger = partition(inputs.trace)
    assert (ledger.main_track, ledger.launches_recorded) == (-1, 0.0)
    assert edges(ledger) == [0, 12]
