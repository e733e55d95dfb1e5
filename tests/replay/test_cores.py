"""Contention for processors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.replay.loader.cores import CoreDemand, find_contention, mean_batch_ns

ALONE = CoreDemand(cores=16, workers=2, on=10e6, off=0, host=10e6)


def test_nobody_waits_where_there_is_room() -> None:
    slowdown = find_contention(ALONE, crowding=0)
    assert (slowdown.fetch, slowdown.host) == pytest.approx((1, 1))
    assert slowdown.load < 0.25


def test_three_threads_share_two_processors() -> None:
    demand = CoreDemand(cores=2, workers=2, on=100e6, off=0, host=50e6)
    slowdown = find_contention(demand, crowding=0)
    assert slowdown.fetch == pytest.approx(1.5, rel=0.01)
    assert slowdown.host == pytest.approx(1.5, rel=0.01)
    # Two processors do twice as much as one, and no more.
    assert 150e6 / mean_batch_ns(demand, slowdown.fetch, slowdown.host) == pytest.approx(
        2, rel=0.01
    )


@pytest.mark.parametrize(("cores", "workers", "host"), [(2, 2, 15e6), (2, 4, 15e6), (4, 4, 5e6)])
@pytest.mark.parametrize("bunched", [0.0, 1.0])
def test_processors_that_are_wanted_all_the_time_are_never_idle(
    cores: int, workers: int, host: float, bunched: float
) -> None:
    demand = CoreDemand(cores=cores, workers=workers, on=70e6, off=0, host=host)
    slowdown = find_contention(demand, crowding=0, bunching=bunched)
    work = (demand.on + demand.host) / mean_batch_ns(demand, slowdown.fetch, slowdown.host)
    assert work == pytest.approx(cores, rel=0.005)


def test_two_threads_that_need_each_other_seldom_run_at_once_beside_two_others() -> None:
    demand = CoreDemand(cores=2, workers=2, on=1e9, off=0, host=1e6, threads=2)
    # Of six pairs of four threads that may run at once, one is theirs.
    assert find_contention(demand, 1, crowding=0).host == pytest.approx(6, rel=0.01)
    assert find_contention(demand, 0, crowding=0).host == pytest.approx(2, rel=0.01)


def test_workers_that_are_set_to_work_in_turn_meet_no_crowd() -> None:
    demand = CoreDemand(cores=2, workers=4, on=20e6, off=0, host=30e6)
    turns = find_contention(demand, crowding=0, bunching=0)
    assert (turns.fetch, turns.host) == pytest.approx((1, 1), abs=0.01)
    chance = find_contention(demand, crowding=0, bunching=1)
    assert chance.host > 1.05
    assert chance.fetch > 1.05


def test_reads_that_wait_leave_their_processor_to_others() -> None:
    blocked = CoreDemand(cores=2, workers=8, on=1e6, off=30e6, host=5e6)
    assert find_contention(blocked, crowding=0).fetch < 1.2
    running = CoreDemand(cores=2, workers=8, on=31e6, off=0, host=5e6)
    assert find_contention(running, crowding=0).fetch > 3


def test_threads_that_compute_together_suffer_more_where_nobody_moves() -> None:
    demand = CoreDemand(cores=2, workers=1, on=60e6, off=0, host=50e6, threads=2)
    even, fullest = find_contention(demand, 0, 0).host, find_contention(demand, 1, 0).host
    assert 1.2 < even < fullest <= 3


def test_a_team_that_has_its_processors_nearly_all_the_time_is_hardly_slower() -> None:
    demand = CoreDemand(cores=1.99, workers=1, on=1e3, off=0, host=50e6, threads=2)
    assert find_contention(demand, 1, 0).host == pytest.approx(1.007, abs=0.002)


def test_one_computing_thread_leaves_room_for_a_worker() -> None:
    two_threads = CoreDemand(cores=2, workers=1, on=40e6, off=0, host=50e6, threads=2)
    one_thread = CoreDemand(cores=2, workers=1, on=40e6, off=0, host=50e6, threads=1)
    assert find_contention(two_threads, crowding=0).host > 1.1
    assert find_contention(one_thread, crowding=0).host == pytest.approx(1, abs=0.01)


def test_all_takes_longer_as_processors_fill() -> None:
    roomy = find_contention(CoreDemand(cores=16, workers=4, on=100e6, off=0, host=10e6))
    full = find_contention(CoreDemand(cores=16, workers=16, on=400e6, off=0, host=24e6))
    assert 1.02 < roomy.fetch < 1.15
    assert 1.1 < full.fetch < 1.5
    assert full.load > 0.95


def test_a_device_that_takes_its_time_leaves_workers_idle() -> None:
    slow = CoreDemand(cores=2, workers=4, on=10e6, off=0, host=2e6, floor_ns=100e6)
    assert find_contention(slow, crowding=0).fetch < 1.1


def test_without_workers_nobody_contends() -> None:
    slowdown = find_contention(
        CoreDemand(cores=2, workers=0, on=10e6, off=0, host=5e6, threads=2), crowding=0
    )
    assert (slowdown.fetch, slowdown.host) == (1, 1)


@given(
    st.integers(1, 64),
    st.integers(0, 70),
    st.tuples(st.floats(0, 1e9), st.floats(0, 1e9), st.floats(0, 1e9)),
    st.integers(1, 64),
)
def test_nothing_gets_quicker_by_company(
    cores: int, workers: int, times: tuple[float, float, float], threads: int
) -> None:
    on, off, host = times
    slowdown = find_contention(CoreDemand(cores, workers, on, off, host, threads))
    assert slowdown.fetch > 1 - 1e-9
    assert slowdown.host > 1 - 1e-9
