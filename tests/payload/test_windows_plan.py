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
from gapless.payload.windows.rhythm import Rhythm

MS = 1_000_000
COST = 100 * MS  # of a window
FREE = {"any_cost": True}


def opened(
    plan: Plan, lengths: list[int], events: int = 500, cost: int = COST
) -> list[tuple[int, str]]:
    """Give what opens after which step, if every window is kept and closed at its last step."""
    found, now, step = list[tuple[int, str]](), 10**12, 0
    for step, length in enumerate(lengths):
        now += length
        what, left = plan.edge(step, now), 0
        if what is not None and plan.ranks and not plan.affords(step, now):
            plan.postponed(step)
        elif what is not None:
            found.append((step, what))
            plan.opened(step, now)
            left = plan.steps(what)
            if what == PROBE:
                plan.probed(step + left, events, cost)
            else:
                plan.closed(step + left, left, cost // 2, cost)
    return found


def test_the_first_window_waits_for_steady_steps() -> None:
    even = opened(Plan(FREE, 1), [10 * MS] * 30)
    assert even[0] == (5, PROBE)
    assert even[1] == (8, WINDOW)  # one step of the probe, two of rest
    assert even[2] == (16, STACKS)
    late = opened(Plan({}, 1), [*range(10 * MS, 100 * MS, 10 * MS), *[120 * MS] * 30])
    assert late[0][0] == 11  # the third of equal length


def test_steps_that_never_are_steady_are_recorded_too() -> None:
    lengths = [10 * MS, 90 * MS] * 20
    assert opened(Plan({}, 1), lengths)[0] == (19, PROBE)


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("cost", [20 * MS, COST, 10 * COST])
def test_windows_behind_the_first_cost_at_most_a_twentieth_of_a_minute(
    cost: int, world: int
) -> None:
    found = opened(Plan({}, world), [10 * MS] * 30_000, cost=cost)
    assert found[1][1] == WINDOW
    assert found[1][0] < 20  # whatever it costs
    for many, (step, _) in enumerate(found[2:], 3):
        passed = step * 10 * MS
        assert many * cost <= max(min(passed, 60_000 * MS) / 20, passed / 50)
    assert [what for _, what in found].count(WINDOW) >= (3 if cost <= COST else 1)


def test_a_training_of_twenty_seconds_has_its_window() -> None:
    for length in (5, 50, 500, 900, 1500):
        uneven = [length * MS * part // 10 for part in (16, 4, 9, 13, 5, 7)] * 1000
        for world in (1, 2):
            plan = Plan({}, world)
            found = {what: step for step, what in reversed(opened(plan, uneven[:10_000]))}
            last = found[WINDOW] + plan.steps(WINDOW)
            assert sum(uneven[: last + 1]) < 20_000 * MS, (length, world)
            assert sum(uneven[: found[PROBE] + 1]) < 1_500 * MS + 4 * max(uneven)


def test_steps_count_that_ended_before_anybody_knew_what_ends_them() -> None:
    """An optimizer is the anchor from its fifth call on, where steps take less than a second."""
    plan, now, did = Plan({}, 1), 10**12, list[tuple[int, str]]()
    for step in range(4, 12):
        now += (300 + step * 83 % 400) * MS
        what = plan.edge(step, now)
        if what is not None:
            did.append((step, what))
            plan.opened(step, now)
            plan.probed(step + 1, 100, COST)
    assert did[:2] == [(5, PROBE), (7, WINDOW)]


def test_a_window_is_put_around_the_long_step_of_a_rhythm() -> None:
    lengths = [2 * MS] * 15 + [70 * MS]  # steps 15, 31, 47 …
    found = opened(Plan({}, 1), lengths * 200)
    _, second, *_ = [step for step, what in found if what == WINDOW]
    assert (second + 2) % 16 == 15
    plan = Plan({}, 1)
    even = opened(plan, [2 * MS] * 3000)
    assert (plan.rhythm.held, even[0]) == (False, (5, PROBE))


def test_a_check_waits_for_the_kind_of_steps_that_its_window_missed() -> None:
    plan, now = Plan({"check": True}, 1), 10**12
    opened(plan, [2 * MS] * 10)
    for step in range(100, 160):
        now += 70 * MS if step % 16 == 15 else 2 * MS
        plan.next = WINDOW
        plan.edge(step, now)
    assert plan.lacks(160)
    plan.rhythm.held = True
    assert not plan.lacks(160)


def test_distances_double_at_least() -> None:
    found = opened(Plan({}, 1), [60_000 * MS] * 2000)
    windows = [step for step, what in found if what == WINDOW]
    assert all(later >= 2 * earlier for earlier, later in pairwise(windows))
    assert len(windows) == 6


def test_ranks_open_by_number_alone() -> None:
    quick = opened(Plan(FREE, 4), [MS] * 5000)
    assert quick == opened(Plan(FREE, 4), [MS, 7 * MS, 30 * MS] * 2000)[: len(quick)]
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


@pytest.mark.parametrize(("stop", "steps"), [(10, 6), (200, 5), (300, 3), (900, 2)])
def test_a_first_window_that_would_hold_the_training_is_short(stop: int, steps: int) -> None:
    plan, check = Plan({}, 1), Plan({"check": True}, 1)
    for one in (plan, check):
        one.probed(6, 1000, COST, stop * MS)
    assert (plan.steps(WINDOW), check.steps(WINDOW)) == (steps, 6)
    plan.kept = 1  # later ones wait until they are little of the run
    assert plan.steps(WINDOW) == 6


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
    found = opened(Plan(FREE, 4), [MS] * 100, events=STACKS_EVENTS + 1)
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
    for options in (FREE, {**FREE, "window_steps": 30}, {"every": 4}):
        plan = Plan(options, 2)
        found = opened(plan, [MS] * 3000)
        kept = [(step, what) for step, what in found if what != PROBE]
        for (step, what), (following, _) in pairwise(kept):
            assert following > step + plan.steps(what) + plan.more(what)
        assert plan.settled > kept[-1][0]


def rhythm(lengths: list[int], *unseen: int) -> Rhythm:
    made = Rhythm()
    for step, length in enumerate(lengths):
        if step not in unseen:
            made.add(step, length * MS)
    return made


def test_a_rhythm_is_seen_through_windows_and_steps_that_something_held_up() -> None:
    lengths = ([2] * 15 + [70]) * 6
    assert rhythm(lengths).ahead(96) == 15
    assert rhythm(lengths, *range(12, 20), 47).ahead(96) == 15
    assert rhythm([9 if at % 7 == 3 else one for at, one in enumerate(lengths)]).ahead(96) == 15
    assert rhythm(lengths).ahead(96, most=30) is None  # too many events for a window


def test_steps_without_a_rhythm_are_not_waited_for() -> None:
    assert rhythm([2] * 100).ahead(100) is None
    assert rhythm([2 + at * 5 % 7 for at in range(100)]).ahead(100) is None
    odd = [70 if at in {3, 10, 31, 44, 83} else 2 for at in range(100)]
    assert rhythm(odd).ahead(100) is None
    assert rhythm([2, 70] * 2).ahead(4) is None


def test_a_window_that_held_the_long_step_ends_the_search() -> None:
    made = rhythm(([2] * 15 + [70]) * 6)  # the next is 111
    made.window(111, 116)
    assert not made.held  # its first step is left out
    made.window(110, 115)
    assert made.held
    assert made.ahead(120) is None
