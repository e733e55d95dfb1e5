"""When windows open and how many steps they hold."""

from itertools import pairwise

import pytest

from gapless.payload.windows.plan import (
    HOPELESS,
    MOST_FAILURES,
    PROBE,
    STACKS,
    STACKS_EVENTS,
    WINDOW,
    Plan,
)

MS = 1_000_000
COST = 100 * MS  # of a window


def opened(plan: Plan, lengths: list[int], events: int = 500) -> list[tuple[int, str]]:
    """Give what opens after which step, if every window is kept and closed at its last step."""
    found, now, step = list[tuple[int, str]](), 10**12, 0
    for step, length in enumerate(lengths):
        now += length
        what, left = plan.edge(step, now), 0
        if what is not None:
            found.append((step, what))
            plan.opened(step, now)
            left = plan.steps(what)
            if what == PROBE:
                plan.probed(step + left, events, COST)
            else:
                plan.closed(step + left, left, COST // 2, COST)
    return found


def test_the_first_window_waits_for_steady_steps() -> None:
    even = opened(Plan({}, 1), [10 * MS] * 30)
    assert even[0] == (5, PROBE)
    assert even[1] == (8, WINDOW)  # one step of the probe, two of rest
    assert even[2] == (16, STACKS)
    late = opened(Plan({}, 1), [*range(10 * MS, 100 * MS, 10 * MS), *[120 * MS] * 30])
    assert late[0][0] == 11  # the third of equal length


def test_steps_that_never_are_steady_are_recorded_too() -> None:
    lengths = [10 * MS, 90 * MS] * 20
    assert opened(Plan({}, 1), lengths)[0] == (19, PROBE)


def test_all_windows_cost_at_most_a_fiftieth() -> None:
    found = opened(Plan({}, 1), [10 * MS] * 30_000)
    assert [what for _, what in found].count(WINDOW) == 6
    third = next(step for step, what in found[3:] if what == WINDOW)
    # Probe, window and stacks cost 0.3 s: the next comes 15 s after the first, at 10 ms a step.
    assert third == pytest.approx(1505, abs=5)


def test_distances_double_at_least() -> None:
    found = opened(Plan({}, 1), [60_000 * MS] * 2000)
    windows = [step for step, what in found if what == WINDOW]
    assert all(later >= 2 * earlier for earlier, later in pairwise(windows))
    assert len(windows) == 6


def test_ranks_open_by_number_alone() -> None:
    quick = opened(Plan({}, 4), [MS] * 5000)
    assert quick == opened(Plan({}, 4), [MS, 7 * MS, 300 * MS] * 2000)[: len(quick)]
    assert quick[:4] == [(8, PROBE), (12, WINDOW), (30, STACKS), (48, WINDOW)]


def test_every_so_many_steps_if_asked_for() -> None:
    found = opened(Plan({"every": 100}, 1), [10 * MS] * 700)
    assert [step for step, what in found if what == WINDOW] == [8, 108, 208, 308, 408, 508]


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
    plan = Plan({}, 1)
    plan.probed(6, events, COST)
    if stop:
        plan.closed(20, 6, stop, COST)
    assert plan.steps(WINDOW) == steps


def test_fewer_events_may_be_asked_for() -> None:
    plan = Plan({"events": 4_000}, 1)
    plan.probed(6, 1000, COST)
    assert plan.steps(WINDOW) == 4


def test_stacks_make_many_events_so_their_window_is_short() -> None:
    plan = Plan({}, 1)
    plan.probed(6, 400, COST)
    assert plan.steps(STACKS) == 3
    plan.probed(6, 3000, COST)
    assert plan.steps(STACKS) == 2
    plan.probed(6, 10_000, COST)
    assert plan.steps(STACKS) == 1


def test_steps_of_too_many_operators_are_recorded_without_stacks() -> None:
    found = opened(Plan({}, 4), [MS] * 100, events=STACKS_EVENTS + 1)
    assert found == [(8, PROBE), (12, WINDOW), (48, WINDOW)]


def test_a_step_of_a_million_operators_is_left_alone() -> None:
    plan = Plan({}, 1)
    why = plan.probed(6, HOPELESS + 1, COST)
    assert why == f"one step makes {HOPELESS + 1} events, too many to record"
    assert [plan.edge(step, step * MS) for step in range(50)] == [None] * 50


def test_a_first_window_that_an_epochs_end_cut_is_tried_again_right_after() -> None:
    """At doubling distances a training whose epochs have 16 steps would be cut each time."""
    plan, tried, now = Plan({}, 1), list[int](), 0
    for step in range(8, 100):
        now += 10 * MS
        what = plan.edge(step, now)
        if what is PROBE:
            plan.opened(step, now)
            plan.probed(step, 1000, COST)
        elif what is WINDOW:
            plan.opened(step, now)
            tried.append(step)
            left = 16 - step % 16
            if left > 6:
                break
            assert plan.failed(step + left, COST) is None
    assert tried == [14, 18]


def test_windows_that_always_fail_are_given_up() -> None:
    plan, whys, now = Plan({}, 1), list[str | None](), 0
    for step in range(100_000):
        now += 10 * MS
        if plan.edge(step, now) is not None:
            plan.opened(step, now)
            whys.append(plan.failed(step + 1, COST))
    assert whys == [None] * (MOST_FAILURES - 1) + [f"{MOST_FAILURES} windows were cut short"]


def test_no_window_at_all_if_asked_for() -> None:
    assert opened(Plan({"most_windows": 0}, 1), [MS] * 100) == []


def test_long_steps_are_not_waited_for_until_they_are_steady() -> None:
    """Ten steps until all windows are in: five seconds each are a minute."""
    uneven = [9_000 * MS, *[5_000 * MS, 8_000 * MS] * 40]
    assert opened(Plan({}, 1), uneven)[:3] == [(3, PROBE), (5, WINDOW), (10, STACKS)]
    assert opened(Plan({}, 1), [MS, *[10 * MS] * 20])[0] == (5, PROBE)


def test_windows_of_long_steps_are_short() -> None:
    plan = Plan({}, 1)
    plan.probed(6, 100, COST)
    assert (plan.steps(WINDOW), plan.steps(STACKS)) == (6, 3)
    for length, window, stacks in ((2_000, 6, 2), (4_000, 5, 1), (20_000, 4, 1)):
        plan.recent = [length * MS] * 3
        assert (plan.steps(WINDOW), plan.steps(STACKS)) == (window, stacks)
    several = Plan({}, 2)  # these go by numbers alone
    several.probed(6, 100, COST)
    several.recent = [20_000 * MS] * 3
    assert (several.steps(WINDOW), several.steps(STACKS)) == (6, 3)


def test_a_device_is_waited_for_as_long_as_memory_allows() -> None:
    plan = Plan({}, 1)
    plan.probed(6, 1000, COST)
    assert plan.more(WINDOW) == 24  # of 12,058 events a window, twice
    assert plan.more(STACKS) == 2
    plan.probed(6, 50_000, COST)
    assert plan.more(WINDOW) == 2
    assert Plan({}, 2).more(WINDOW) == Plan({}, 2).more(STACKS) == 8  # known beforehand


def test_ranks_plan_so_that_waiting_for_a_device_runs_into_no_other_window() -> None:
    for options in ({}, {"window_steps": 30}, {"every": 4}):
        plan = Plan(options, 2)
        found = opened(plan, [MS] * 3000)
        kept = [(step, what) for step, what in found if what != PROBE]
        for (step, what), (following, _) in pairwise(kept):
            assert following > step + plan.steps(what) + plan.more(what)
        assert plan.settled > kept[-1][0]
