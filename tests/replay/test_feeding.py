"""What another loader gives: predicted from one simulated run, compared with another."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gapless.model.change import Feed
from gapless.model.facts import Loader, Machine
from gapless.model.interval import Interval
from gapless.model.trace import Int64
from gapless.replay.asrun import AsRun
from gapless.replay.feeding import best, fed, feed, identity, usual
from gapless.replay.plans import merged
from gapless.replay.queue import Consumer, Costs, Queue, Settings, simulate
from gapless.replay.service import BLOCKED, SAMPLER, Inputs, Rows, Turns, draws, middle

MS = 1_000_000
HAND = 400_000
MANY = 160
MACHINE = Machine(16, 16, None, None, None, None, None, None, None)


def loader(**values: Any) -> Loader:  # noqa: ANN401 - a fact may be anything
    usual: dict[str, Any] = {
        "id": 1,
        "where": None,
        "batch_size": 8,
        "num_workers": 0,
        "prefetch_factor": None,
        "pin_memory": False,
        "persistent_workers": False,
        "in_order": True,
        "shuffle": True,
        "iterable": False,
        "dataset": "Pictures",
        "length": None,
        "start_method": "fork",
        "trains": True,
        "iterations": 1,
        "batches": MANY,
        "waited_ns": 0,
        "random": True,
        "blocked": None,
        "batch_bytes": 10_000,
        "asks_worker_info": None,
        "cuda_in_dataset": False,
        "picklable": True,
        "pinnable": True,
    }
    return Loader(**{**usual, **values})


def lengths(mean: float, spread: float = 0.3, seed: int = 0) -> Int64:
    random = np.random.default_rng(seed)
    return np.rint(mean * random.gamma(1 / spread**2, spread**2, MANY)).astype(np.int64)


def truth(workers: int, fetch: Int64, host: int, prefetch: int = 2) -> float:
    """Give the mean step of a training whose loader has so many workers and all processors."""
    costs = Costs(fetch.tolist(), hand=[HAND], transit=200_000 if workers else 0)
    return simulate(Queue(Settings(workers, prefetch), costs), Consumer([host]), MANY).step(20)


def ran(workers: int, fetch: Int64, host: int, running: float = 0.0, prefetch: int = 2) -> Inputs:
    """Give what would be recorded of such a training; ``running``: of a fetch, on a processor."""
    costs = Costs(fetch.tolist(), hand=[HAND], transit=200_000 if workers else 0)
    played = simulate(Queue(Settings(workers, prefetch), costs), Consumer([host]), MANY)
    ask, got = np.array(played.ask), np.array(played.got)
    on = np.rint(fetch * running).astype(np.int64)
    rows = Rows(
        host=(ask[1:] - got[:-1])[20:],
        turn=np.zeros(MANY - 21, np.int64),
        wait=(got - ask)[21:],
        on=on[21:],
        queue=np.zeros(MANY - 21, np.int64),
        off=(fetch - on)[21:],
    )
    many: dict[str, Any] = {"num_workers": workers, "prefetch_factor": prefetch} if workers else {}
    return Inputs(
        loader(**many),
        MACHINE,
        rows,
        hand=np.array([HAND] * 9 if workers else [], np.int64),
        dispatch=HAND if workers else 0,
        transit=200_000 if workers else None,
    )


def speedup(inputs: Inputs, *changes: Feed) -> Interval:
    found = feed(inputs, changes, rounds=40)
    assert found.refused is None
    assert found.speedup is not None
    assert found.family == "feed"
    at_home = not inputs.loader.num_workers and all(one.stages for one in changes)
    assert (found.floor == found.speedup.low) is at_home
    return found.speedup


@pytest.mark.parametrize(("have", "asked"), [(1, 4), (4, 1), (2, 8), (2, 3), (3, 2)])
def test_other_workers_for_samples_that_wait_are_predicted_closely(have: int, asked: int) -> None:
    fetch, host = lengths(60 * MS), 12 * MS
    found = speedup(ran(have, fetch, host), Feed(1, num_workers=asked))
    real = truth(have, fetch, host) / truth(asked, fetch, host)
    assert found.mid == pytest.approx(real, rel=0.08)
    assert found.low * 0.97 <= real <= found.high * 1.03


def test_no_workers_are_predicted_where_batches_are_made_in_no_time() -> None:
    fetch, host = lengths(2 * MS), 12 * MS
    inputs = ran(2, fetch, host, running=1.0)
    found = speedup(inputs, Feed(1, num_workers=0))
    real = truth(2, fetch, host) / truth(0, fetch, host)
    assert found.low * 0.97 <= real <= found.high * 1.03


@pytest.mark.parametrize(("workers", "host"), [(0, 12), (2, 12), (2, 120)])
def test_a_delay_of_fetches_costs_what_workers_do_not_hide(workers: int, host: int) -> None:
    fetch, delay = lengths(60 * MS), 20 * MS
    found = speedup(ran(workers, fetch, host * MS), Feed(1, delay_ns=delay))
    real = truth(workers, fetch, host * MS) / truth(workers, fetch + delay, host * MS)
    assert found.mid == pytest.approx(real, rel=0.03)
    assert (real < 0.95) == (host < 100)


def test_workers_where_there_were_none_are_predicted_within_an_interval() -> None:
    fetch, host = lengths(60 * MS), 12 * MS
    inputs = ran(0, fetch, host)
    found = speedup(inputs, Feed(1, num_workers=8))
    real = truth(0, fetch, host) / truth(8, fetch, host)
    assert found.low <= real * 1.02
    assert real <= found.high * 1.02
    assert found.high / found.low < 1.4
    assert "no workers" in " ".join(feed(inputs, (Feed(1, num_workers=8),), 9).notes)


def test_deeper_prefetch_helps_where_samples_have_heavy_tails() -> None:
    fetch = np.where(np.arange(MANY) % 16 == 5, 300 * MS, 10 * MS)
    inputs = ran(2, fetch, 20 * MS)
    deep, wide = speedup(inputs, Feed(1, prefetch_factor=16)), speedup(inputs, Feed(1))
    real = truth(2, fetch, 20 * MS) / truth(2, fetch, 20 * MS, prefetch=16)
    assert wide.mid == 1
    assert deep.mid == pytest.approx(real, rel=0.1)
    assert deep.mid > 1.15


def test_more_workers_than_processors_gain_nothing_where_fetches_run() -> None:
    few = replace(MACHINE, cpus=2, intra_op_threads=1)
    inputs = replace(ran(2, lengths(60 * MS), 5 * MS, running=1.0), machine=few)
    running = speedup(inputs, Feed(1, num_workers=8))
    assert running.low < 1.02
    waiting = replace(ran(2, lengths(60 * MS), 5 * MS, running=0.05), machine=few)
    assert speedup(waiting, Feed(1, num_workers=8)).low > 2


def test_where_workers_fill_all_processors_the_interval_is_wide() -> None:
    fetch, host = lengths(160 * MS), 5 * MS
    full = speedup(ran(2, fetch, host, running=1.0), Feed(1, num_workers=16))
    room = speedup(ran(2, fetch, host, running=0.0), Feed(1, num_workers=16))
    assert full.high / full.low > 1.4
    assert room.high / room.low < 1.25


def test_a_device_is_a_floor() -> None:
    inputs = replace(ran(0, lengths(60 * MS), 5 * MS), on_device=True, device_ns=40.0 * MS)
    found = speedup(inputs, Feed(1, wait=False))
    assert found.mid == pytest.approx(65.4 / 40, rel=0.05)
    assert speedup(inputs, Feed(1, num_workers=16)).mid == pytest.approx(found.mid, rel=0.03)


def test_where_no_window_shows_the_device_it_may_be_anything() -> None:
    inputs = replace(ran(0, lengths(60 * MS), 5 * MS), on_device=True)
    found = feed(inputs, (Feed(1, wait=False),), 40)
    assert found.speedup is not None
    assert found.speedup.low < 1.1
    assert found.speedup.high > 3
    assert any("no window" in note for note in found.notes)


def test_no_wait_leaves_the_training_alone() -> None:
    inputs = ran(1, lengths(60 * MS), 12 * MS)
    assert speedup(inputs, Feed(1, wait=False)).mid == pytest.approx(
        inputs.rows.step() / (12 * MS), rel=0.06
    )


def test_a_cheaper_stage_shortens_its_part_of_a_fetch() -> None:
    inputs = replace(
        ran(0, lengths(60 * MS), 12 * MS, running=1.0),
        stages={"decode": (0.5, 0.0), "read": (0.5, 1.0)},
    )
    found = speedup(inputs, Feed(1, stages={"decode": 0.0}))
    assert found.mid == pytest.approx(72.4 / 42.4, rel=0.05)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_quick_sampler_takes_off_what_choosing_samples_took(workers: int) -> None:
    plain = ran(workers, lengths(10 * MS), 12 * MS, running=1.0)
    rows = replace(plain.rows, wait=plain.rows.wait + 30 * MS)
    hand = plain.hand + 30 * MS
    inputs = replace(plain, rows=rows, sampler=30 * MS, hand=hand)
    inputs = replace(inputs, dispatch=plain.dispatch + 30 * MS if workers else 0)
    found = speedup(inputs, Feed(1, stages={SAMPLER: 0.0}))
    assert found.mid == pytest.approx(rows.step() / plain.rows.step(), rel=0.06)
    more = speedup(inputs, Feed(1, num_workers=2 + workers))
    assert more.high < 1.5  # workers do not choose


def test_without_its_waits_a_fetch_computes_as_before() -> None:
    stages = {"decode": (1.0, 0.2), "other": (0.0, 0.8)}
    inputs = replace(ran(0, lengths(60 * MS), 12 * MS, running=0.25), stages=stages)
    found = speedup(inputs, Feed(1, stages={BLOCKED: 0.0}))
    assert found.mid == pytest.approx(72.4 / 27.4, rel=0.05)
    half = speedup(inputs, Feed(1, stages={BLOCKED: 0.5}))
    assert half.mid == pytest.approx(72.4 / 49.9, rel=0.05)


def test_workers_that_stay_save_their_start() -> None:
    turns = Turns(batches=10, begin=60 * MS, close=30 * MS, first=20 * MS)
    settings = Settings(2, batches=10)
    costs = Costs([10 * MS], hand=[HAND], fork=30 * MS, begin=20 * MS, close=30 * MS)
    played = simulate(Queue(settings, costs), Consumer([12 * MS]), MANY)
    ask, got = np.array(played.ask), np.array(played.got)
    at = np.arange(1, MANY) % 10 == 0
    none = np.full(MANY - 1, 0)
    rows = Rows(
        host=ask[1:] - got[:-1],
        turn=np.where(at, 90 * MS, 0),
        wait=(got - ask)[1:] - np.where(at, 90 * MS, 0),
        on=none,
        queue=none,
        off=np.full(MANY - 1, 10 * MS),
    )
    inputs = Inputs(
        loader(num_workers=2, prefetch_factor=2),
        MACHINE,
        rows,
        hand=np.full(5, HAND),
        dispatch=HAND,
        transit=0,
        turns=turns,
    )
    error = identity(inputs)
    assert error is not None
    assert abs(error) < 0.03
    found = speedup(inputs, Feed(1, persistent_workers=True))
    # Of ten steps, 124 ms and a turn of some 110 ms, little but the refilling of the queue is left.
    assert 1.5 < found.mid < 2.1
    assert found.low > 1.4


def test_the_unchanged_run_is_replayed_as_it_was() -> None:
    for workers in (0, 1, 2, 4):
        error = identity(ran(workers, lengths(60 * MS), 12 * MS, running=0.5))
        assert error is not None
        assert abs(error) < 0.03


def test_a_run_that_its_own_replay_misses_is_refused() -> None:
    inputs = ran(2, lengths(60 * MS), 12 * MS)
    rows = inputs.rows
    strange = replace(inputs, rows=replace(rows, wait=rows.wait * 3))
    found = feed(strange, (Feed(1, num_workers=4),), 9)
    assert found.speedup is None
    assert "misses the run's step" in (found.refused or "")
    near = replace(inputs, rows=replace(rows, wait=rows.wait + round(rows.step() * 0.08)))
    wide, sure = (feed(one, (Feed(1, num_workers=3),), 20) for one in (near, inputs))
    assert wide.speedup is not None
    assert sure.speedup is not None
    assert wide.speedup.high / wide.speedup.low > 1.1 * sure.speedup.high / sure.speedup.low
    assert any("interval is wider" in note for note in wide.notes)


def test_what_cannot_be_replayed_is_refused_with_the_reason() -> None:
    inputs = ran(2, lengths(60 * MS), 12 * MS)
    few = replace(inputs, rows=Rows(**{name: one[:7] for name, one in vars(inputs.rows).items()}))
    unknown = np.full(len(inputs.rows), -1)
    blind = replace(inputs, rows=replace(inputs.rows, on=unknown, queue=unknown, off=unknown))
    for one, change, why in (
        (inputs, Feed(2), "another loader"),
        (inputs, Feed(1, stages={"bake": 0.5}), "bake"),
        (inputs, Feed(1, worker_threads=1), "try it"),
        (few, Feed(1), "7 batches"),
        (blind, Feed(1), "no fetch"),
    ):
        found = feed(one, (change,), 9)
        assert found.speedup is None
        assert why in (found.refused or "")


def test_one_thread_in_each_worker_makes_nothing_slower_where_there_is_time_for_it() -> None:
    inputs = replace(ran(4, lengths(20 * MS), 30 * MS, running=1.0), each=3.0)
    alone = Feed(1, worker_threads=1)
    assert feed(inputs, (alone,), 9).floor == pytest.approx(0.97)
    # It would have to make a batch with one thread in the time in which three made one.
    assert feed(replace(inputs, each=8.0), (alone,), 9).floor is None
    assert feed(inputs, (Feed(1, worker_threads=1, num_workers=2),), 9).floor is None


def test_threads_that_others_keep_waiting_have_no_price() -> None:
    inputs = ran(0, lengths(4 * MS), 10 * MS, running=1.0)
    inputs = replace(inputs, machine=replace(inputs.machine, cpus=2, intra_op_threads=2))
    fewer = Feed(1, intra_op_threads=1)
    assert feed(inputs, (fewer,)).refused is None
    beside = replace(inputs, others=1.4)
    assert str(feed(beside, (fewer,)).refused).startswith("others took 1.4 processors")
    assert feed(beside, (Feed(1, num_workers=1, intra_op_threads=1),)).refused is None
    assert feed(replace(inputs, others=0.2), (fewer,)).refused is None


def test_one_computing_thread_and_a_worker_go_together_on_two_processors() -> None:
    machine = replace(MACHINE, cpus=2, intra_op_threads=2)
    inputs = replace(ran(0, lengths(40 * MS), 40 * MS, running=1.0), machine=machine)
    two = speedup(inputs, Feed(1, num_workers=2))
    one = speedup(inputs, Feed(1, num_workers=2, intra_op_threads=1))
    assert two.high / two.low > 1.2
    assert one.high / one.low > 1.2
    assert two.low < 1.3
    assert one.high > 1.1


def test_changes_of_one_loader_become_one() -> None:
    found = merged(
        1,
        (
            Feed(1, num_workers=4, stages={"read": 0.5}),
            Feed(1, prefetch_factor=8, num_workers=2, stages={"read": 0.5, "decode": 0.1}),
        ),
    )
    assert found == Feed(1, num_workers=2, prefetch_factor=8, stages={"read": 0.25, "decode": 0.1})
    assert not merged(1, (Feed(1, wait=False), Feed(1))).wait


def test_a_window_is_fed_as_the_loader_would() -> None:
    inputs = ran(1, lengths(60 * MS, 0.01), 12 * MS)
    slow = fed(AsRun(inputs, middle(inputs)), (), at=7_000 * MS)
    assert slow.host == 1
    first = slow.source.got(7_012 * MS)
    assert 7_055 * MS < first < 7_065 * MS
    quick = fed(AsRun(inputs, middle(inputs)), (Feed(1, num_workers=8),), at=7_000 * MS)
    assert quick.source.got(7_012 * MS) == 7_012 * MS + HAND


def test_the_best_settings_are_the_smallest_of_those_that_are_near_the_best() -> None:
    inputs = ran(1, lengths(60 * MS), 12 * MS)
    found = best(inputs)
    assert found[0].feed.num_workers == 8
    assert found[0].predicted.speedup is not None
    assert found[0].predicted.speedup.mid == pytest.approx(
        truth(1, lengths(60 * MS), 12 * MS) / truth(8, lengths(60 * MS), 12 * MS), rel=0.05
    )


def test_so_many_workers_are_compared_as_fetches_leave_processors_free() -> None:
    machine = replace(MACHINE, cpus=2)
    running = replace(ran(0, lengths(60 * MS), 12 * MS, running=1.0), machine=machine)
    waiting = replace(ran(0, lengths(60 * MS), 12 * MS, running=0.1), machine=machine)
    assert max(one.num_workers or 0 for one in usual(running)) == 2
    assert max(one.num_workers or 0 for one in usual(waiting)) == 20
    assert {one.intra_op_threads for one in usual(running)} == {None, 1}


def test_resamples_cover_each_unknown_evenly_and_take_blocks_of_rows() -> None:
    inputs = ran(2, lengths(60 * MS), 12 * MS)
    found = list(draws(inputs, 10))
    for name in ("gang", "hand-over"):
        assert sorted(int(one.chances[name] * 10) for one in found) == list(range(10))
    steps = np.concatenate([np.diff(one.rows) for one in found])
    assert (steps == 1).mean() > 0.85
    assert all(one.rows.max() < len(inputs.rows) for one in found)
