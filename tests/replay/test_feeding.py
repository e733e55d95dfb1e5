"""What another loader gives: predicted from one simulated run, compared with another."""

from typing import Any

import numpy as np
import pytest
from msgspec.structs import asdict, replace

from gapless.model.change import LoaderChange
from gapless.model.estimate import Estimate
from gapless.model.facts import Loader, Machine
from gapless.model.trace import Int64
from gapless.replay.loader.baseline import LoaderBaseline
from gapless.replay.loader.costs import (
    BLOCKED,
    SAMPLER,
    BatchRows,
    LoaderInputs,
    Turns,
    make_draws,
    middle_draw,
)
from gapless.replay.loader.queue import Consumer, LoaderCosts, Queue, QueueSettings, play_batches
from gapless.replay.loader.scenario import merge_changes
from gapless.replay.loader.whatif import (
    couple_loader,
    predict_loader,
    replay_error,
)

MS = 1_000_000
HAND = 400_000
N_BATCHES = 160
MACHINE = Machine(16, 16, None, None, None, None, None)


def make_loader(**values: Any) -> Loader:  # noqa: ANN401 - a fact may be anything
    defaults: dict[str, Any] = {
        "id": 1,
        "location": None,
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
        "batches": N_BATCHES,
        "waited_ns": 0,
        "random": True,
        "blocked": None,
        "batch_bytes": 10_000,
        "asks_worker_info": None,
        "cuda_in_dataset": False,
        "picklable": True,
        "pinnable": True,
    }
    return Loader(**{**defaults, **values})


def draw_lengths(mean: float, spread: float = 0.3, seed: int = 0) -> Int64:
    random = np.random.default_rng(seed)
    return np.rint(mean * random.gamma(1 / spread**2, spread**2, N_BATCHES)).astype(np.int64)


def true_step(workers: int, fetch: Int64, host: int, prefetch: int = 2) -> float:
    """Return the mean step of a training whose loader has so many workers and all processors."""
    costs = LoaderCosts(fetch.tolist(), hand=[HAND], transit=200_000 if workers else 0)
    return play_batches(
        Queue(QueueSettings(workers, prefetch), costs), Consumer([host]), N_BATCHES
    ).step(20)


def make_inputs(
    workers: int, fetch: Int64, host: int, running: float = 0.0, prefetch: int = 2
) -> LoaderInputs:
    """Return what would be recorded of such a training; ``running``: of a fetch, on a processor."""
    costs = LoaderCosts(fetch.tolist(), hand=[HAND], transit=200_000 if workers else 0)
    batch_times = play_batches(
        Queue(QueueSettings(workers, prefetch), costs), Consumer([host]), N_BATCHES
    )
    asks, hand_overs = np.array(batch_times.asks), np.array(batch_times.hand_overs)
    on = np.rint(fetch * running).astype(np.int64)
    rows = BatchRows(
        host=(asks[1:] - hand_overs[:-1])[20:],
        turn=np.zeros(N_BATCHES - 21, np.int64),
        wait=(hand_overs - asks)[21:],
        on=on[21:],
        queue=np.zeros(N_BATCHES - 21, np.int64),
        off=(fetch - on)[21:],
    )
    settings: dict[str, Any] = (
        {"num_workers": workers, "prefetch_factor": prefetch} if workers else {}
    )
    return LoaderInputs(
        make_loader(**settings),
        MACHINE,
        rows,
        hand=np.array([HAND] * 9 if workers else [], np.int64),
        dispatch=HAND if workers else 0,
        transit=200_000 if workers else None,
    )


def predict_speedup(inputs: LoaderInputs, *changes: LoaderChange) -> Estimate:
    prediction = predict_loader(inputs, changes, rounds=40)
    assert prediction.refused is None
    assert prediction.speedup is not None
    assert prediction.family == "feed"
    in_process = not inputs.loader.num_workers and all(change.stages for change in changes)
    assert (prediction.floor == prediction.speedup.low) is in_process
    return prediction.speedup


@pytest.mark.parametrize(("n_before", "n_after"), [(1, 4), (4, 1), (2, 8), (2, 3), (3, 2)])
def test_other_workers_for_samples_that_wait_are_predicted_closely(
    n_before: int, n_after: int
) -> None:
    fetch, host = draw_lengths(60 * MS), 12 * MS
    estimate = predict_speedup(
        make_inputs(n_before, fetch, host), LoaderChange(1, num_workers=n_after)
    )
    true_speedup = true_step(n_before, fetch, host) / true_step(n_after, fetch, host)
    assert estimate.mid == pytest.approx(true_speedup, rel=0.08)
    assert estimate.low * 0.97 <= true_speedup <= estimate.high * 1.03


def test_no_workers_are_predicted_where_batches_are_made_in_no_time() -> None:
    fetch, host = draw_lengths(2 * MS), 12 * MS
    inputs = make_inputs(2, fetch, host, running=1.0)
    estimate = predict_speedup(inputs, LoaderChange(1, num_workers=0))
    true_speedup = true_step(2, fetch, host) / true_step(0, fetch, host)
    assert estimate.low * 0.97 <= true_speedup <= estimate.high * 1.03


@pytest.mark.parametrize(("workers", "host"), [(0, 12), (2, 12), (2, 120)])
def test_a_delay_of_fetches_costs_what_workers_do_not_hide(workers: int, host: int) -> None:
    fetch, delay = draw_lengths(60 * MS), 20 * MS
    estimate = predict_speedup(
        make_inputs(workers, fetch, host * MS), LoaderChange(1, delay_ns=delay)
    )
    true_speedup = true_step(workers, fetch, host * MS) / true_step(
        workers, fetch + delay, host * MS
    )
    assert estimate.mid == pytest.approx(true_speedup, rel=0.03)
    assert (true_speedup < 0.95) == (host < 100)


def test_a_training_thread_that_is_freed_of_something_takes_a_shorter_step() -> None:
    fetch, host = draw_lengths(8 * MS), 20 * MS
    estimate = predict_speedup(make_inputs(2, fetch, host), LoaderChange(1, freed_ns=4 * MS))
    true_speedup = true_step(2, fetch, host) / true_step(2, fetch, host - 4 * MS)
    assert true_speedup > 1.15
    assert estimate.mid == pytest.approx(true_speedup, rel=0.03)


def test_workers_where_there_were_none_are_predicted_within_an_interval() -> None:
    fetch, host = draw_lengths(60 * MS), 12 * MS
    inputs = make_inputs(0, fetch, host)
    estimate = predict_speedup(inputs, LoaderChange(1, num_workers=8))
    true_speedup = true_step(0, fetch, host) / true_step(8, fetch, host)
    assert estimate.low <= true_speedup * 1.02
    assert true_speedup <= estimate.high * 1.02
    assert estimate.high / estimate.low < 1.4
    assert "no workers" in " ".join(
        predict_loader(inputs, (LoaderChange(1, num_workers=8),), 9).notes
    )


def test_deeper_prefetch_helps_where_samples_have_heavy_tails() -> None:
    fetch = np.where(np.arange(N_BATCHES) % 16 == 5, 300 * MS, 10 * MS)
    inputs = make_inputs(2, fetch, 20 * MS)
    deep, wide = (
        predict_speedup(inputs, LoaderChange(1, prefetch_factor=16)),
        predict_speedup(inputs, LoaderChange(1)),
    )
    true_speedup = true_step(2, fetch, 20 * MS) / true_step(2, fetch, 20 * MS, prefetch=16)
    assert wide.mid == 1
    assert deep.mid == pytest.approx(true_speedup, rel=0.1)
    assert deep.mid > 1.15


def test_more_workers_than_processors_gain_nothing_where_fetches_run() -> None:
    small_machine = replace(MACHINE, cpus=2, intra_op_threads=1)
    inputs = replace(
        make_inputs(2, draw_lengths(60 * MS), 5 * MS, running=1.0), machine=small_machine
    )
    running = predict_speedup(inputs, LoaderChange(1, num_workers=8))
    assert running.low < 1.02
    waiting = replace(
        make_inputs(2, draw_lengths(60 * MS), 5 * MS, running=0.05), machine=small_machine
    )
    assert predict_speedup(waiting, LoaderChange(1, num_workers=8)).low > 2


def test_where_workers_fill_all_processors_the_interval_is_wide() -> None:
    fetch, host = draw_lengths(160 * MS), 5 * MS
    full = predict_speedup(
        make_inputs(2, fetch, host, running=1.0), LoaderChange(1, num_workers=16)
    )
    room = predict_speedup(
        make_inputs(2, fetch, host, running=0.0), LoaderChange(1, num_workers=16)
    )
    assert full.high / full.low > 1.4
    assert room.high / room.low < 1.25


def test_a_device_is_a_floor() -> None:
    inputs = replace(
        make_inputs(0, draw_lengths(60 * MS), 5 * MS), on_device=True, device_ns=40.0 * MS
    )
    estimate = predict_speedup(inputs, LoaderChange(1, wait=False))
    assert estimate.mid == pytest.approx(65.4 / 40, rel=0.05)
    assert predict_speedup(inputs, LoaderChange(1, num_workers=16)).mid == pytest.approx(
        estimate.mid, rel=0.03
    )


def test_where_no_window_shows_the_device_it_may_be_anything() -> None:
    inputs = replace(make_inputs(0, draw_lengths(60 * MS), 5 * MS), on_device=True)
    prediction = predict_loader(inputs, (LoaderChange(1, wait=False),), 40)
    assert prediction.speedup is not None
    assert prediction.speedup.low < 1.1
    assert prediction.speedup.high > 3
    assert any("no window" in note for note in prediction.notes)


def test_no_wait_leaves_the_training_alone() -> None:
    inputs = make_inputs(1, draw_lengths(60 * MS), 12 * MS)
    assert predict_speedup(inputs, LoaderChange(1, wait=False)).mid == pytest.approx(
        inputs.rows.step() / (12 * MS), rel=0.06
    )


def test_a_cheaper_stage_shortens_its_part_of_a_fetch() -> None:
    inputs = replace(
        make_inputs(0, draw_lengths(60 * MS), 12 * MS, running=1.0),
        stages={"decode": (0.5, 0.0), "read": (0.5, 1.0)},
    )
    estimate = predict_speedup(inputs, LoaderChange(1, stages={"decode": 0.0}))
    assert estimate.mid == pytest.approx(72.4 / 42.4, rel=0.05)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_quick_sampler_takes_off_what_choosing_samples_took(workers: int) -> None:
    plain = make_inputs(workers, draw_lengths(10 * MS), 12 * MS, running=1.0)
    rows = replace(plain.rows, wait=plain.rows.wait + 30 * MS)
    hand = plain.hand + 30 * MS
    inputs = replace(plain, rows=rows, sampler=30 * MS, hand=hand)
    inputs = replace(inputs, dispatch=plain.dispatch + 30 * MS if workers else 0)
    estimate = predict_speedup(inputs, LoaderChange(1, stages={SAMPLER: 0.0}))
    assert estimate.mid == pytest.approx(rows.step() / plain.rows.step(), rel=0.06)
    more_workers = predict_speedup(inputs, LoaderChange(1, num_workers=2 + workers))
    assert more_workers.high < 1.5  # workers do not choose


def test_without_its_waits_a_fetch_computes_as_before() -> None:
    stages = {"decode": (1.0, 0.2), "other": (0.0, 0.8)}
    inputs = replace(make_inputs(0, draw_lengths(60 * MS), 12 * MS, running=0.25), stages=stages)
    estimate = predict_speedup(inputs, LoaderChange(1, stages={BLOCKED: 0.0}))
    assert estimate.mid == pytest.approx(72.4 / 27.4, rel=0.05)
    half = predict_speedup(inputs, LoaderChange(1, stages={BLOCKED: 0.5}))
    assert half.mid == pytest.approx(72.4 / 49.9, rel=0.05)


def test_workers_that_stay_save_their_start() -> None:
    turns = Turns(batches=10, begin=60 * MS, close=30 * MS, first_fetch=20 * MS)
    settings = QueueSettings(2, batches=10)
    costs = LoaderCosts([10 * MS], hand=[HAND], fork=30 * MS, begin=20 * MS, close=30 * MS)
    batch_times = play_batches(Queue(settings, costs), Consumer([12 * MS]), N_BATCHES)
    asks, hand_overs = np.array(batch_times.asks), np.array(batch_times.hand_overs)
    is_turn = np.arange(1, N_BATCHES) % 10 == 0
    zeros = np.full(N_BATCHES - 1, 0)
    rows = BatchRows(
        host=asks[1:] - hand_overs[:-1],
        turn=np.where(is_turn, 90 * MS, 0),
        wait=(hand_overs - asks)[1:] - np.where(is_turn, 90 * MS, 0),
        on=zeros,
        queue=zeros,
        off=np.full(N_BATCHES - 1, 10 * MS),
    )
    inputs = LoaderInputs(
        make_loader(num_workers=2, prefetch_factor=2),
        MACHINE,
        rows,
        hand=np.full(5, HAND),
        dispatch=HAND,
        transit=0,
        turns=turns,
    )
    error = replay_error(inputs)
    assert error is not None
    assert abs(error) < 0.03
    estimate = predict_speedup(inputs, LoaderChange(1, persistent_workers=True))
    # Of ten steps, 124 ms and a turn of some 110 ms, little but the refilling of the queue is left.
    assert 1.5 < estimate.mid < 2.1
    assert estimate.low > 1.4


def test_the_unchanged_run_is_replayed_as_it_was() -> None:
    for workers in (0, 1, 2, 4):
        error = replay_error(make_inputs(workers, draw_lengths(60 * MS), 12 * MS, running=0.5))
        assert error is not None
        assert abs(error) < 0.03


def test_a_run_that_its_own_replay_misses_is_refused() -> None:
    inputs = make_inputs(2, draw_lengths(60 * MS), 12 * MS)
    rows = inputs.rows
    strange = replace(inputs, rows=replace(rows, wait=rows.wait * 3))
    prediction = predict_loader(strange, (LoaderChange(1, num_workers=4),), 9)
    assert prediction.speedup is None
    assert "misses the run's step" in (prediction.refused or "")
    near = replace(inputs, rows=replace(rows, wait=rows.wait + round(rows.step() * 0.08)))
    wide, sure = (
        predict_loader(case_inputs, (LoaderChange(1, num_workers=3),), 20)
        for case_inputs in (near, inputs)
    )
    assert wide.speedup is not None
    assert sure.speedup is not None
    assert wide.speedup.high / wide.speedup.low > 1.1 * sure.speedup.high / sure.speedup.low
    assert any("interval is wider" in note for note in wide.notes)


def test_what_cannot_be_replayed_is_refused_with_the_reason() -> None:
    inputs = make_inputs(2, draw_lengths(60 * MS), 12 * MS)
    few_rows = replace(
        inputs, rows=BatchRows(**{name: column[:7] for name, column in asdict(inputs.rows).items()})
    )
    unknown = np.full(len(inputs.rows), -1)
    blind = replace(inputs, rows=replace(inputs.rows, on=unknown, queue=unknown, off=unknown))
    for case_inputs, change, why in (
        (inputs, LoaderChange(2), "another loader"),
        (inputs, LoaderChange(1, stages={"bake": 0.5}), "bake"),
        (inputs, LoaderChange(1, worker_threads=1), "try it"),
        (few_rows, LoaderChange(1), "7 batches"),
        (blind, LoaderChange(1), "no fetch"),
    ):
        prediction = predict_loader(case_inputs, (change,), 9)
        assert prediction.speedup is None
        assert why in (prediction.refused or "")


def test_one_thread_in_each_worker_makes_nothing_slower_where_there_is_time_for_it() -> None:
    inputs = replace(
        make_inputs(4, draw_lengths(20 * MS), 30 * MS, running=1.0), worker_threads=3.0
    )
    alone = LoaderChange(1, worker_threads=1)
    assert predict_loader(inputs, (alone,), 9).floor == pytest.approx(0.97)
    # It would have to make a batch with one thread in the time in which three made one.
    assert predict_loader(replace(inputs, worker_threads=8.0), (alone,), 9).floor is None
    assert (
        predict_loader(inputs, (LoaderChange(1, worker_threads=1, num_workers=2),), 9).floor is None
    )


def test_threads_that_others_keep_waiting_have_no_price() -> None:
    inputs = make_inputs(0, draw_lengths(4 * MS), 10 * MS, running=1.0)
    inputs = replace(inputs, machine=replace(inputs.machine, cpus=2, intra_op_threads=2))
    fewer = LoaderChange(1, intra_op_threads=1)
    assert predict_loader(inputs, (fewer,)).refused is None
    shared_inputs = replace(inputs, other_cpus=1.4)
    assert str(predict_loader(shared_inputs, (fewer,)).refused).startswith(
        "others took 1.4 processors"
    )
    assert (
        predict_loader(shared_inputs, (LoaderChange(1, num_workers=1, intra_op_threads=1),)).refused
        is None
    )
    assert predict_loader(replace(inputs, other_cpus=0.2), (fewer,)).refused is None


def test_one_computing_thread_and_a_worker_go_together_on_two_processors() -> None:
    machine = replace(MACHINE, cpus=2, intra_op_threads=2)
    inputs = replace(make_inputs(0, draw_lengths(40 * MS), 40 * MS, running=1.0), machine=machine)
    two_threads = predict_speedup(inputs, LoaderChange(1, num_workers=2))
    one_thread = predict_speedup(inputs, LoaderChange(1, num_workers=2, intra_op_threads=1))
    assert two_threads.high / two_threads.low > 1.2
    assert one_thread.high / one_thread.low > 1.2
    assert two_threads.low < 1.3
    assert one_thread.high > 1.1


def test_changes_of_one_loader_become_one() -> None:
    change = merge_changes(
        1,
        (
            LoaderChange(1, num_workers=4, stages={"read": 0.5}),
            LoaderChange(1, prefetch_factor=8, num_workers=2, stages={"read": 0.5, "decode": 0.1}),
        ),
    )
    assert change == LoaderChange(
        1, num_workers=2, prefetch_factor=8, stages={"read": 0.25, "decode": 0.1}
    )
    assert not merge_changes(1, (LoaderChange(1, wait=False), LoaderChange(1))).wait


def test_a_window_is_fed_as_the_loader_would() -> None:
    inputs = make_inputs(1, draw_lengths(60 * MS, 0.01), 12 * MS)
    slow = couple_loader(LoaderBaseline(inputs, middle_draw(inputs)), (), start_ns=7_000 * MS)
    assert slow.host == 1
    first_ns = slow.source.hand_over(7_012 * MS)
    assert 7_055 * MS < first_ns < 7_065 * MS
    quick = couple_loader(
        LoaderBaseline(inputs, middle_draw(inputs)),
        (LoaderChange(1, num_workers=8),),
        start_ns=7_000 * MS,
    )
    assert quick.source.hand_over(7_012 * MS) == 7_012 * MS + HAND


def test_resamples_cover_each_unknown_evenly_and_take_blocks_of_rows() -> None:
    inputs = make_inputs(2, draw_lengths(60 * MS), 12 * MS)
    resamples = list(make_draws(inputs, 10))
    for name in ("gang", "hand-over"):
        assert sorted(int(resample.chances[name] * 10) for resample in resamples) == list(range(10))
    steps = np.concatenate([np.diff(resample.rows) for resample in resamples])
    assert (steps == 1).mean() > 0.85
    assert all(resample.rows.max() < len(inputs.rows) for resample in resamples)
