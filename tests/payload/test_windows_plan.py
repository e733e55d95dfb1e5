"""When windows open and how many steps they hold."""

from itertools import pairwise

import pytest

from gapless.payload.windows.plan import (
    HOPELESS,
    MAX_FAILURES,
    PROBE,
    STACKS,
    STACKS_EVENTS,
    WINDOW,
    WindowPlan,
)
from gapless.payload.windows.rhythm import Rhythm

MS = 1_000_000
COST = 100 * MS  # of a window
FREE = {"any_cost": True}


def simulate_plan(
    plan: WindowPlan, lengths: list[int], events: int = 500, cost: int = COST
) -> list[tuple[int, str]]:
    """Return what opens after which step, if every window is kept and closed at its last step."""
    openings, now, step = list[tuple[int, str]](), 10**12, 0
    for step, length in enumerate(lengths):
        now += length
        kind, n_steps = plan.edge(step, now), 0
        if kind is not None and plan.ranks and not plan.affords(step, now):
            plan.postpone(step)
        elif kind is not None:
            openings.append((step, kind))
            plan.note_opened(step, now)
            n_steps = plan.steps(kind)
            if kind == PROBE:
                plan.note_probe(step + n_steps, events, cost)
            else:
                plan.note_kept(step + n_steps, n_steps, cost // 2, cost)
    return openings


def test_the_first_window_waits_for_steady_steps() -> None:
    even = simulate_plan(WindowPlan(FREE, 1), [10 * MS] * 30)
    assert even[0] == (5, PROBE)
    assert even[1] == (8, WINDOW)  # one step of the probe, two of rest
    assert even[2] == (16, STACKS)
    late_openings = simulate_plan(
        WindowPlan({}, 1), [*range(10 * MS, 100 * MS, 10 * MS), *[120 * MS] * 30]
    )
    assert late_openings[0][0] == 11  # the third of equal length


def test_steps_that_never_are_steady_are_recorded_too() -> None:
    lengths = [10 * MS, 90 * MS] * 20
    assert simulate_plan(WindowPlan({}, 1), lengths)[0] == (19, PROBE)


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("cost", [20 * MS, COST, 10 * COST])
def test_windows_behind_the_first_cost_at_most_a_twentieth_of_a_minute(
    cost: int, world: int
) -> None:
    openings = simulate_plan(WindowPlan({}, world), [10 * MS] * 30_000, cost=cost)
    assert openings[1][1] == WINDOW
    assert openings[1][0] < 20  # whatever it costs
    for n_windows, (step, _) in enumerate(openings[2:], 3):
        elapsed_ns = step * 10 * MS
        assert n_windows * cost <= max(min(elapsed_ns, 60_000 * MS) / 20, elapsed_ns / 50)
    assert [kind for _, kind in openings].count(WINDOW) >= (3 if cost <= COST else 1)


def test_a_training_of_twenty_seconds_has_its_window() -> None:
    for length in (5, 50, 500, 900, 1500):
        uneven = [length * MS * tenths // 10 for tenths in (16, 4, 9, 13, 5, 7)] * 1000
        for world in (1, 2):
            plan = WindowPlan({}, world)
            step_by_kind = {
                kind: step for step, kind in reversed(simulate_plan(plan, uneven[:10_000]))
            }
            last_step = step_by_kind[WINDOW] + plan.steps(WINDOW)
            assert sum(uneven[: last_step + 1]) < 20_000 * MS, (length, world)
            assert sum(uneven[: step_by_kind[PROBE] + 1]) < 1_500 * MS + 4 * max(uneven)


def test_steps_count_that_ended_before_anybody_knew_what_ends_them() -> None:
    """An optimizer is the anchor from its fifth call on, where steps take less than a second."""
    plan, now, openings = WindowPlan({}, 1), 10**12, list[tuple[int, str]]()
    for step in range(4, 12):
        now += (300 + step * 83 % 400) * MS
        kind = plan.edge(step, now)
        if kind is not None:
            openings.append((step, kind))
            plan.note_opened(step, now)
            plan.note_probe(step + 1, 100, COST)
    assert openings[:2] == [(5, PROBE), (7, WINDOW)]


def test_a_window_is_put_around_the_long_step_of_a_rhythm() -> None:
    lengths = [2 * MS] * 15 + [70 * MS]  # steps 15, 31, 47 …
    openings = simulate_plan(WindowPlan({}, 1), lengths * 200)
    _, second, *_ = [step for step, kind in openings if kind == WINDOW]
    assert (second + 2) % 16 == 15
    plan = WindowPlan({}, 1)
    even = simulate_plan(plan, [2 * MS] * 3000)
    assert (plan.rhythm.held, even[0]) == (False, (5, PROBE))


def test_a_check_waits_for_the_kind_of_steps_that_its_window_missed() -> None:
    plan, now = WindowPlan({"check": True}, 1), 10**12
    simulate_plan(plan, [2 * MS] * 10)
    for step in range(100, 160):
        now += 70 * MS if step % 16 == 15 else 2 * MS
        plan.next = WINDOW
        plan.edge(step, now)
    assert plan.lacks(160)
    plan.rhythm.held = True
    assert not plan.lacks(160)


def test_distances_double_at_least() -> None:
    openings = simulate_plan(WindowPlan({}, 1), [60_000 * MS] * 2000)
    windows = [step for step, kind in openings if kind == WINDOW]
    assert all(later >= 2 * earlier for earlier, later in pairwise(windows))
    assert len(windows) == 6


def test_ranks_open_by_number_alone() -> None:
    quick = simulate_plan(WindowPlan(FREE, 4), [MS] * 5000)
    assert quick == simulate_plan(WindowPlan(FREE, 4), [MS, 7 * MS, 30 * MS] * 2000)[: len(quick)]
    assert quick[:4] == [(8, PROBE), (12, WINDOW), (30, STACKS), (48, WINDOW)]


def test_every_so_many_steps_if_asked_for() -> None:
    openings = simulate_plan(WindowPlan({"every": 100}, 1), [10 * MS] * 700)
    assert [step for step, kind in openings if kind == WINDOW] == [8, 108, 208, 308, 408, 508]


@pytest.mark.parametrize(
    ("events", "stop", "steps"),
    [
        (2_000, 0, 6),
        (3_000, 0, 4),  # 46 MiB of events
        (60_000, 0, 3),  # at least, even above the number
        (1000, 3_000_000_000, 3),
        (1000, 1_500_000_000, 4),
    ],
)
def test_windows_are_as_long_as_they_may_be(events: int, stop: int, steps: int) -> None:
    plan = WindowPlan({}, 1)
    plan.note_probe(6, events, COST)
    if stop:
        plan.note_kept(20, 6, stop, COST)
    assert plan.steps(WINDOW) == steps


@pytest.mark.parametrize(("stop", "steps"), [(10, 6), (200, 5), (300, 3), (900, 2)])
def test_a_first_window_that_would_hold_the_training_is_short(stop: int, steps: int) -> None:
    plan, check = WindowPlan({}, 1), WindowPlan({"check": True}, 1)
    for window_plan in (plan, check):
        window_plan.note_probe(6, 1000, COST, stop * MS)
    assert (plan.steps(WINDOW), check.steps(WINDOW)) == (steps, 6)
    plan.kept = 1  # later ones wait until they are little of the run
    assert plan.steps(WINDOW) == 6


def test_fewer_events_may_be_asked_for() -> None:
    plan = WindowPlan({"events": 4_000}, 1)
    plan.note_probe(6, 1000, COST)
    assert plan.steps(WINDOW) == 4


def test_stacks_make_many_events_so_their_window_is_short() -> None:
    plan = WindowPlan({}, 1)
    plan.note_probe(6, 400, COST)
    assert plan.steps(STACKS) == 3
    plan.note_probe(6, 3000, COST)
    assert plan.steps(STACKS) == 2
    plan.note_probe(6, 10_000, COST)
    assert plan.steps(STACKS) == 1


def test_steps_of_too_many_operators_are_recorded_without_stacks() -> None:
    openings = simulate_plan(WindowPlan(FREE, 4), [MS] * 100, events=STACKS_EVENTS + 1)
    assert openings == [(8, PROBE), (12, WINDOW), (48, WINDOW)]


def test_a_step_of_a_million_operators_is_left_alone() -> None:
    plan = WindowPlan({}, 1)
    why = plan.note_probe(6, HOPELESS + 1, COST)
    assert why == f"one step makes {HOPELESS + 1} events, too many to record"
    assert [plan.edge(step, step * MS) for step in range(50)] == [None] * 50


def test_a_first_window_that_an_epochs_end_cut_is_tried_again_right_after() -> None:
    """At doubling distances a training whose epochs have 16 steps would be cut each time."""
    plan, tried_steps, now = WindowPlan({}, 1), list[int](), 0
    for step in range(8, 100):
        now += 10 * MS
        kind = plan.edge(step, now)
        if kind is PROBE:
            plan.note_opened(step, now)
            plan.note_probe(step, 1000, COST)
        elif kind is WINDOW:
            plan.note_opened(step, now)
            tried_steps.append(step)
            n_steps = 16 - step % 16
            if n_steps > 6:
                break
            assert plan.note_failure(step + n_steps, COST) is None
    assert tried_steps == [14, 18]


def test_windows_that_always_fail_are_given_up() -> None:
    plan, whys, now = WindowPlan({}, 1), list[str | None](), 0
    for step in range(100_000):
        now += 10 * MS
        if plan.edge(step, now) is not None:
            plan.note_opened(step, now)
            whys.append(plan.note_failure(step + 1, COST))
    assert whys == [None] * (MAX_FAILURES - 1) + [f"{MAX_FAILURES} windows were cut short"]


def test_no_window_at_all_if_asked_for() -> None:
    assert simulate_plan(WindowPlan({"most_windows": 0}, 1), [MS] * 100) == []


def test_long_steps_are_not_waited_for_until_they_are_steady() -> None:
    """Ten steps until all windows are in: five seconds each are a minute."""
    uneven = [9_000 * MS, *[5_000 * MS, 8_000 * MS] * 40]
    assert simulate_plan(WindowPlan({}, 1), uneven)[:3] == [(3, PROBE), (5, WINDOW), (10, STACKS)]
    assert simulate_plan(WindowPlan({}, 1), [MS, *[10 * MS] * 20])[0] == (5, PROBE)


def test_windows_of_long_steps_are_short() -> None:
    plan = WindowPlan({}, 1)
    plan.note_probe(6, 100, COST)
    assert (plan.steps(WINDOW), plan.steps(STACKS)) == (6, 3)
    for length, window, stacks in ((2_000, 6, 2), (4_000, 5, 1), (20_000, 4, 1)):
        plan.recent = [length * MS] * 3
        assert (plan.steps(WINDOW), plan.steps(STACKS)) == (window, stacks)
    ranks_plan = WindowPlan({}, 2)  # these go by numbers alone
    ranks_plan.note_probe(6, 100, COST)
    ranks_plan.recent = [20_000 * MS] * 3
    assert (ranks_plan.steps(WINDOW), ranks_plan.steps(STACKS)) == (6, 3)


def test_a_device_is_waited_for_as_long_as_memory_allows() -> None:
    plan = WindowPlan({}, 1)
    plan.note_probe(6, 1000, COST)
    assert plan.extra_steps(WINDOW) == 24  # of 12,058 events a window, twice
    assert plan.extra_steps(STACKS) == 2
    plan.note_probe(6, 50_000, COST)
    assert plan.extra_steps(WINDOW) == 2
    assert (
        WindowPlan({}, 2).extra_steps(WINDOW) == WindowPlan({}, 2).extra_steps(STACKS) == 8
    )  # known beforehand


def test_ranks_plan_so_that_waiting_for_a_device_runs_into_no_other_window() -> None:
    for options in (FREE, {**FREE, "window_steps": 30}, {"every": 4}):
        plan = WindowPlan(options, 2)
        openings = simulate_plan(plan, [MS] * 3000)
        windows = [(step, kind) for step, kind in openings if kind != PROBE]
        for (step, kind), (following, _) in pairwise(windows):
            assert following > step + plan.steps(kind) + plan.extra_steps(kind)
        assert plan.settled > windows[-1][0]


def make_rhythm(lengths: list[int], *skipped: int) -> Rhythm:
    rhythm = Rhythm()
    for step, length in enumerate(lengths):
        if step not in skipped:
            rhythm.add(step, length * MS)
    return rhythm


def test_a_rhythm_is_seen_through_windows_and_steps_that_something_held_up() -> None:
    lengths = ([2] * 15 + [70]) * 6
    assert make_rhythm(lengths).ahead(96) == 15
    assert make_rhythm(lengths, *range(12, 20), 47).ahead(96) == 15
    assert (
        make_rhythm(
            [9 if index % 7 == 3 else length for index, length in enumerate(lengths)]
        ).ahead(96)
        == 15
    )
    assert make_rhythm(lengths).ahead(96, max_ratio=30) is None  # too many events for a window


def test_steps_without_a_rhythm_are_not_waited_for() -> None:
    assert make_rhythm([2] * 100).ahead(100) is None
    assert make_rhythm([2 + index * 5 % 7 for index in range(100)]).ahead(100) is None
    irregular = [70 if index in {3, 10, 31, 44, 83} else 2 for index in range(100)]
    assert make_rhythm(irregular).ahead(100) is None
    assert make_rhythm([2, 70] * 2).ahead(4) is None


def test_a_window_that_held_the_long_step_ends_the_search() -> None:
    rhythm = make_rhythm(([2] * 15 + [70]) * 6)  # the next is 111
    rhythm.window(111, 116)
    assert not rhythm.held  # its first step is left out
    rhythm.window(110, 115)
    assert rhythm.held
    assert rhythm.ahead(120) is None
