"""A loader with other settings: what its batches would cost."""

from dataclasses import replace

import numpy as np
import pytest

from gapless.model.change import Feed
from gapless.model.machine import Constant, Constants
from gapless.replay import service, sharing
from gapless.replay.asrun import AsRun, fitted
from gapless.replay.plans import Plan, plan
from gapless.replay.service import Inputs, Turns, middle
from tests.replay.test_feeding import HAND, MACHINE, MS, lengths, loader, ran


def planned(inputs: Inputs, change: Feed) -> Plan:
    return plan(AsRun(inputs, middle(inputs)), change)


def constants(*values: tuple[str, int | None, float]) -> Constants:
    found = tuple(Constant(name, "ns", at, value, None, None, 9, 0.1) for name, at, value in values)
    return Constants(None, found, (), 0.0, 0.0)


def test_the_unchanged_loader_costs_what_it_cost() -> None:
    inputs = ran(2, lengths(60 * MS), 12 * MS, running=0.5)
    found = planned(inputs, Feed(1))
    assert found.costs.fetch == lengths(60 * MS)[21:].tolist()
    assert set(found.consumer.host) == {12 * MS}
    assert found.host == 1
    assert (found.settings.workers, found.settings.prefetch) == (2, 2)


def test_a_pinning_thread_takes_and_pins() -> None:
    inputs = replace(
        ran(0, lengths(60 * MS), 12 * MS),
        loader=loader(pin_memory=True, batch_bytes=64 << 20),
        constants=constants(("copy.pin", 16 << 20, 2.0 * MS)),
    )
    found = planned(inputs, Feed(1, num_workers=4))
    assert found.settings.pinned
    assert found.costs.pin == [8 * MS]
    assert found.costs.take[0] > 1 * MS  # 64 MiB are touched there
    assert max(found.costs.hand) < 1 * MS


def test_what_passes_memory_in_many_threads_takes_a_worker_longer() -> None:
    large = replace(
        ran(0, lengths(10 * MS, 0.01), 12 * MS, running=1.0),
        loader=loader(batch_bytes=64 << 20),
        samples=1.0,
        constants=constants(("cpu.memory.triad", 1, 1e10), ("cpu.memory.triad", 16, 6e10)),
    )
    draw = middle(large)
    assert sharing.parallel(large, draw) == pytest.approx(3.5)
    small = replace(large, samples=640.0)
    assert sharing.parallel(small, draw) == pytest.approx(1.05)
    decoding = replace(large, stages={"decode": (1.0, 1.0)})
    assert sharing.parallel(decoding, draw) == 1
    fetch = planned(large, Feed(1, num_workers=4)).costs.fetch
    assert np.mean(fetch) > 3 * 10 * MS


def test_no_more_is_gained_by_threads_than_large_products_gain() -> None:
    machine = replace(MACHINE, cpus=2, intra_op_threads=2)
    inputs = replace(ran(0, lengths(10 * MS), 12 * MS), machine=machine)
    known = replace(
        inputs, constants=constants(("cpu.gemm.fp32", 1, 1e11), ("cpu.gemm.fp32", 2, 1.1e11))
    )
    draw = service.Draw(np.arange(9), {"threads": 0.95})
    assert sharing.shared_part(inputs, draw) == pytest.approx(0.9)
    assert sharing.shared_part(known, draw) == pytest.approx(2 * (1 - 1 / 1.1))


def test_threads_that_sleep_give_nothing_and_take_nothing() -> None:
    machine = replace(MACHINE, cpus=2, intra_op_threads=2)
    inputs = replace(ran(0, lengths(12 * MS), 12 * MS, running=1.0), machine=machine)
    asleep, spinning = replace(inputs, used=1.0), replace(inputs, used=1.5)
    assert sharing.helped(inputs) is None
    assert sharing.helped(asleep) == pytest.approx(0, abs=0.05)
    assert sharing.helped(spinning) == pytest.approx(1, abs=0.1)
    least, most = (service.Draw(np.arange(9), {"threads": at}) for at in (0.05, 0.95))
    assert sharing.shared_part(asleep, most) < 0.1
    assert sharing.shared_part(spinning, most) > 0.8
    # Where they spin without giving anything, they are in the way of workers all the same.
    two = Feed(1, num_workers=2)
    hosts = [plan(AsRun(one, least), two).host for one in (asleep, spinning)]
    assert hosts[0] < 0.9 * hosts[1]


def test_while_a_read_waits_the_training_thread_runs_nothing_either() -> None:
    machine = replace(MACHINE, cpus=2, intra_op_threads=2)
    waiting = replace(ran(0, lengths(40 * MS), 10 * MS), machine=machine)  # all of it is blocked
    spinning = replace(waiting, used=20 / 50)  # both threads, between reads
    assert sharing.helped(spinning) == pytest.approx(1, abs=0.1)
    assert sharing.helped(replace(waiting, used=10 / 50)) == pytest.approx(0, abs=0.1)


def test_threads_share_no_more_than_long_operators_take() -> None:
    machine = replace(MACHINE, cpus=2, intra_op_threads=2)
    inputs = replace(ran(0, lengths(10 * MS), 12 * MS), machine=machine)
    most = service.Draw(np.arange(9), {"threads": 0.95})
    # A quarter of its time in two threads is half as much again in one: two fifths of all.
    assert sharing.shared_part(replace(inputs, shareable=0.25), most) == pytest.approx(0.4)
    assert sharing.shared_part(replace(inputs, shareable=0.0), most) == 0


def crowded() -> Inputs:
    """Give four workers on two processors, whose threads wait for those, and for one another."""
    few = replace(MACHINE, cpus=2, intra_op_threads=1)
    inputs = replace(ran(4, lengths(40 * MS), 16 * MS, running=0.2), machine=few)
    return replace(inputs, rows=replace(inputs.rows, queue=4 * inputs.rows.on))


def test_a_training_thread_that_waited_less_felt_fewer_threads() -> None:
    plain = fitted(crowded())
    assert plain.felt is None
    little, much = (fitted(replace(crowded(), delayed=share)) for share in (0.1, 0.5))
    assert little.felt is not None
    assert much.felt is not None
    assert 1 <= little.felt < much.felt <= plain.each
    left = [AsRun(one, middle(one)).settled[1].host for one in (little, much)]
    assert left[0] < left[1]


def test_workers_with_one_thread_each_wait_for_no_other_and_leave_processors() -> None:
    inputs = fitted(crowded())
    now, then = planned(inputs, Feed(1)), planned(inputs, Feed(1, worker_threads=1))
    assert then.load < now.load
    assert then.host < now.host
    assert np.mean(then.costs.fetch) < np.mean(now.costs.fetch)
    # The more of what its threads ran was work, the longer one takes for it.
    spun, worked = (
        plan(
            AsRun(inputs, replace(middle(inputs), chances={"team": at})), Feed(1, worker_threads=1)
        )
        for at in (0.05, 0.95)
    )
    assert np.mean(spun.costs.fetch) < np.mean(worked.costs.fetch)


def test_hand_overs_are_work_of_a_thread_that_has_more_room_or_less() -> None:
    inputs = fitted(crowded())
    found = planned(inputs, Feed(1, worker_threads=1))
    assert set(found.costs.hand) == {round(HAND * found.host)}


def test_a_worker_that_stays_is_started_once() -> None:
    turns = Turns(batches=8, begin=60 * MS, close=30 * MS, first=20 * MS)
    inputs = replace(ran(2, lengths(60 * MS), 12 * MS), turns=turns)
    now, then = planned(inputs, Feed(1)), planned(inputs, Feed(1, persistent_workers=True))
    assert (now.costs.fork, now.costs.close, now.costs.begin) == (30 * MS, 30 * MS, 20 * MS)
    assert then.settings.persistent
    assert then.costs.close == 0
    assert 0 < then.costs.reset < 5 * MS


def test_first_fetches_and_the_time_after_a_fork_are_not_those_of_workers_that_stay() -> None:
    inputs = ran(2, np.full(160, 60 * MS), 12 * MS)
    position = np.arange(len(inputs.rows)) % 8
    rows = replace(
        inputs.rows, position=position, off=np.where(position < 2, 90 * MS, inputs.rows.off)
    )
    inputs = replace(inputs, rows=rows, turns=Turns(batches=8, begin=60 * MS, close=30 * MS))
    assert max(planned(inputs, Feed(1)).costs.fetch) == 90 * MS
    assert max(planned(inputs, Feed(1, persistent_workers=True)).costs.fetch) == 60 * MS


def test_fetches_that_wait_to_run_tell_of_workers_with_several_threads() -> None:
    few = replace(MACHINE, cpus=2, intra_op_threads=1)
    inputs = replace(ran(4, lengths(40 * MS), 8 * MS, running=0.5), machine=few)
    assert fitted(inputs).each == 1
    crowded = replace(inputs, rows=replace(inputs.rows, queue=4 * inputs.rows.on))
    assert 1.5 < fitted(crowded).each < 16
    assert fitted(replace(inputs, loader=loader())).each == 1


def test_hand_overs_that_were_measured_are_those_of_other_workers_too() -> None:
    inputs = ran(1, lengths(60 * MS), 12 * MS)
    found = planned(inputs, Feed(1, num_workers=6))
    assert set(found.costs.hand) == {HAND}
    assert set(found.costs.take) == {0}
    assert found.costs.transit == 200_000
    less = planned(inputs, Feed(1, num_workers=6, stages={"hand-over": 0.5}))
    assert set(less.costs.hand) == {HAND // 2}


def test_what_is_not_known_of_workers_is_drawn() -> None:
    inputs = ran(0, lengths(60 * MS), 12 * MS)
    takes = {
        plan(AsRun(inputs, draw), Feed(1, num_workers=2)).costs.take[0]
        for draw in service.draws(inputs, 8)
    }
    assert len(takes) == 8
    assert min(takes) < MS < max(takes)
