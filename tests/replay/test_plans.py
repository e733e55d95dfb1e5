"""A loader with other settings: what its batches would cost."""

import numpy as np
import pytest
from msgspec.structs import replace

from gapless.model.change import LoaderChange
from gapless.model.machine import Constant, Constants
from gapless.replay.loader import costs, sharing
from gapless.replay.loader.baseline import LoaderBaseline, fit_worker_threads
from gapless.replay.loader.costs import LoaderInputs, Turns, middle_draw
from gapless.replay.loader.scenario import LoaderScenario, make_scenario
from tests.replay.test_feeding import HAND, MACHINE, MS, draw_lengths, make_inputs, make_loader


def scenario_of(inputs: LoaderInputs, change: LoaderChange) -> LoaderScenario:
    return make_scenario(LoaderBaseline(inputs, middle_draw(inputs)), change)


def make_constants(*values: tuple[str, int | None, float]) -> Constants:
    constants = tuple(
        Constant(name, "ns", size, value, None, None, 9, 0.1) for name, size, value in values
    )
    return Constants(None, constants, (), 0.0, 0.0)


def test_the_unchanged_loader_costs_what_it_cost() -> None:
    inputs = make_inputs(2, draw_lengths(60 * MS), 12 * MS, running=0.5)
    scenario = scenario_of(inputs, LoaderChange(1))
    assert scenario.costs.fetch == draw_lengths(60 * MS)[21:].tolist()
    assert set(scenario.consumer.host) == {12 * MS}
    assert scenario.host == 1
    assert (scenario.settings.workers, scenario.settings.prefetch) == (2, 2)


def test_a_pinning_thread_takes_and_pins() -> None:
    inputs = replace(
        make_inputs(0, draw_lengths(60 * MS), 12 * MS),
        loader=make_loader(pin_memory=True, batch_bytes=64 << 20),
        constants=make_constants(("copy.pin", 16 << 20, 2.0 * MS)),
    )
    scenario = scenario_of(inputs, LoaderChange(1, num_workers=4))
    assert scenario.settings.pinned
    assert scenario.costs.pin == [8 * MS]
    assert scenario.costs.take[0] > 1 * MS  # 64 MiB are touched there
    assert max(scenario.costs.hand) < 1 * MS


def test_what_passes_memory_in_many_threads_takes_a_worker_longer() -> None:
    large = replace(
        make_inputs(0, draw_lengths(10 * MS, 0.01), 12 * MS, running=1.0),
        loader=make_loader(batch_bytes=64 << 20),
        samples=1.0,
        constants=make_constants(("cpu.memory.triad", 1, 1e10), ("cpu.memory.triad", 16, 6e10)),
    )
    draw = middle_draw(large)
    assert sharing.parallel_factor(large, draw) == pytest.approx(3.5)
    small = replace(large, samples=640.0)
    assert sharing.parallel_factor(small, draw) == pytest.approx(1.05)
    decoding = replace(large, stages={"decode": (1.0, 1.0)})
    assert sharing.parallel_factor(decoding, draw) == 1
    fetch = scenario_of(large, LoaderChange(1, num_workers=4)).costs.fetch
    assert np.mean(fetch) > 3 * 10 * MS


def test_no_more_is_gained_by_threads_than_large_products_gain() -> None:
    machine = replace(MACHINE, cpus=2, intra_op_threads=2)
    inputs = replace(make_inputs(0, draw_lengths(10 * MS), 12 * MS), machine=machine)
    measured_inputs = replace(
        inputs, constants=make_constants(("cpu.gemm.fp32", 1, 1e11), ("cpu.gemm.fp32", 2, 1.1e11))
    )
    draw = costs.Draw(np.arange(9), {"threads": 0.95})
    assert sharing.parallel_share(inputs, draw) == pytest.approx(0.9)
    assert sharing.parallel_share(measured_inputs, draw) == pytest.approx(2 * (1 - 1 / 1.1))


def test_threads_that_sleep_give_nothing_and_take_nothing() -> None:
    machine = replace(MACHINE, cpus=2, intra_op_threads=2)
    inputs = replace(make_inputs(0, draw_lengths(12 * MS), 12 * MS, running=1.0), machine=machine)
    asleep, spinning = replace(inputs, used_cpus=1.0), replace(inputs, used_cpus=1.5)
    assert sharing.helper_share(inputs) is None
    assert sharing.helper_share(asleep) == pytest.approx(0, abs=0.05)
    assert sharing.helper_share(spinning) == pytest.approx(1, abs=0.1)
    lowest, highest = (costs.Draw(np.arange(9), {"threads": chance}) for chance in (0.05, 0.95))
    assert sharing.parallel_share(asleep, highest) < 0.1
    assert sharing.parallel_share(spinning, highest) > 0.8
    # Where they spin without giving anything, they are in the way of workers all the same.
    two = LoaderChange(1, num_workers=2)
    hosts = [
        make_scenario(LoaderBaseline(case_inputs, lowest), two).host
        for case_inputs in (asleep, spinning)
    ]
    assert hosts[0] < 0.9 * hosts[1]


def test_a_thread_that_waits_for_a_processor_leaves_it_to_the_others_of_its_team() -> None:
    machine = replace(MACHINE, cpus=2, intra_op_threads=2)
    inputs = make_inputs(1, draw_lengths(40 * MS), 100 * MS, running=1.0)
    rows = inputs.rows
    crowded = replace(
        inputs,
        machine=machine,
        rows=replace(rows, host=rows.host * 0 + 90 * MS, wait=rows.wait * 0 + 10 * MS),
        used_cpus=1.1,
    )
    assert sharing.helper_share(crowded) == pytest.approx(20 / 90, abs=0.01)
    delayed = replace(crowded, delay_share=0.3)
    assert sharing.helper_share(delayed) == pytest.approx(50 / 90, abs=0.01)
    # Fetches wait as long as they run: so do the threads that they meet.
    queued = replace(delayed, rows=replace(delayed.rows, queue=delayed.rows.on))
    assert sharing.helper_share(queued) == pytest.approx(50 / 90 * 1.8, abs=0.02)


def test_a_team_that_computes_in_long_operators_gains_most_by_an_idle_worker() -> None:
    machine = replace(MACHINE, cpus=2, intra_op_threads=2)
    inputs = make_inputs(1, draw_lengths(90 * MS), 100 * MS, running=1.0)
    short, long = (
        replace(inputs, machine=machine, used_cpus=1.8, shareable=share) for share in (0.1, 0.9)
    )
    idle = LoaderChange(1, stages={"other": 0.02})
    hosts = [
        scenario_of(replace(case, stages={"other": (1.0, 1.0)}), idle).host
        for case in (short, long)
    ]
    assert hosts[1] < hosts[0] - 0.1
    assert hosts[1] > 1 / 3


def test_while_a_read_waits_the_training_thread_runs_nothing_either() -> None:
    machine = replace(MACHINE, cpus=2, intra_op_threads=2)
    waiting = replace(
        make_inputs(0, draw_lengths(40 * MS), 10 * MS), machine=machine
    )  # all of it is blocked
    spinning = replace(waiting, used_cpus=20 / 50)  # both threads, between reads
    assert sharing.helper_share(spinning) == pytest.approx(1, abs=0.1)
    assert sharing.helper_share(replace(waiting, used_cpus=10 / 50)) == pytest.approx(0, abs=0.1)


def test_threads_share_no_more_than_long_operators_take() -> None:
    machine = replace(MACHINE, cpus=2, intra_op_threads=2)
    inputs = replace(make_inputs(0, draw_lengths(10 * MS), 12 * MS), machine=machine)
    highest = costs.Draw(np.arange(9), {"threads": 0.95})
    # A quarter of its time in two threads is half as much again in one: two fifths of all.
    assert sharing.parallel_share(replace(inputs, shareable=0.25), highest) == pytest.approx(0.4)
    assert sharing.parallel_share(replace(inputs, shareable=0.0), highest) == 0


def crowded_inputs() -> LoaderInputs:
    """Return four workers on two processors, whose threads wait for those, and for one another."""
    small_machine = replace(MACHINE, cpus=2, intra_op_threads=1)
    inputs = replace(
        make_inputs(4, draw_lengths(40 * MS), 16 * MS, running=0.2), machine=small_machine
    )
    return replace(inputs, rows=replace(inputs.rows, queue=4 * inputs.rows.on))


def test_a_training_thread_that_waited_less_felt_fewer_threads() -> None:
    plain = fit_worker_threads(crowded_inputs())
    assert plain.felt_threads is None
    slight, heavy = (
        fit_worker_threads(replace(crowded_inputs(), delay_share=share)) for share in (0.1, 0.5)
    )
    assert slight.felt_threads is not None
    assert heavy.felt_threads is not None
    assert 1 <= slight.felt_threads < heavy.felt_threads <= plain.worker_threads
    host_factors = [
        LoaderBaseline(case_inputs, middle_draw(case_inputs)).equilibrium[1].host
        for case_inputs in (slight, heavy)
    ]
    assert host_factors[0] < host_factors[1]


def test_workers_with_one_thread_each_wait_for_no_other_and_leave_processors() -> None:
    inputs = fit_worker_threads(crowded_inputs())
    current, changed = (
        scenario_of(inputs, LoaderChange(1)),
        scenario_of(inputs, LoaderChange(1, worker_threads=1)),
    )
    assert changed.load < current.load
    assert changed.host < current.host
    assert np.mean(changed.costs.fetch) < np.mean(current.costs.fetch)
    # The more of what its threads ran was work, the longer one takes for it.
    spun, worked = (
        make_scenario(
            LoaderBaseline(inputs, replace(middle_draw(inputs), chances={"team": chance})),
            LoaderChange(1, worker_threads=1),
        )
        for chance in (0.05, 0.95)
    )
    assert np.mean(spun.costs.fetch) < np.mean(worked.costs.fetch)


def test_hand_overs_are_work_of_a_thread_that_has_more_room_or_less() -> None:
    inputs = fit_worker_threads(crowded_inputs())
    scenario = scenario_of(inputs, LoaderChange(1, worker_threads=1))
    assert set(scenario.costs.hand) == {round(HAND * scenario.host)}


def test_a_worker_that_stays_is_started_once() -> None:
    turns = Turns(batches=8, begin=60 * MS, close=30 * MS, first_fetch=20 * MS)
    inputs = replace(make_inputs(2, draw_lengths(60 * MS), 12 * MS), turns=turns)
    current, changed = (
        scenario_of(inputs, LoaderChange(1)),
        scenario_of(inputs, LoaderChange(1, persistent_workers=True)),
    )
    assert (current.costs.fork, current.costs.close, current.costs.begin) == (
        30 * MS,
        30 * MS,
        20 * MS,
    )
    assert changed.settings.persistent
    assert changed.costs.close == 0
    assert 0 < changed.costs.reset < 5 * MS


def test_first_fetches_and_the_time_after_a_fork_are_not_those_of_workers_that_stay() -> None:
    inputs = make_inputs(2, np.full(160, 60 * MS), 12 * MS)
    position = np.arange(len(inputs.rows)) % 8
    rows = replace(
        inputs.rows, position=position, off=np.where(position < 2, 90 * MS, inputs.rows.off)
    )
    inputs = replace(inputs, rows=rows, turns=Turns(batches=8, begin=60 * MS, close=30 * MS))
    assert max(scenario_of(inputs, LoaderChange(1)).costs.fetch) == 90 * MS
    assert max(scenario_of(inputs, LoaderChange(1, persistent_workers=True)).costs.fetch) == 60 * MS


def test_fetches_that_wait_to_run_tell_of_workers_with_several_threads() -> None:
    small_machine = replace(MACHINE, cpus=2, intra_op_threads=1)
    inputs = replace(
        make_inputs(4, draw_lengths(40 * MS), 8 * MS, running=0.5), machine=small_machine
    )
    assert fit_worker_threads(inputs).worker_threads == 1
    busy_inputs = replace(inputs, rows=replace(inputs.rows, queue=4 * inputs.rows.on))
    assert 1.5 < fit_worker_threads(busy_inputs).worker_threads < 16
    assert fit_worker_threads(replace(inputs, loader=make_loader())).worker_threads == 1


def test_hand_overs_that_were_measured_are_those_of_other_workers_too() -> None:
    inputs = make_inputs(1, draw_lengths(60 * MS), 12 * MS)
    scenario = scenario_of(inputs, LoaderChange(1, num_workers=6))
    assert set(scenario.costs.hand) == {HAND}
    assert set(scenario.costs.take) == {0}
    assert scenario.costs.transit == 200_000
    shorter = scenario_of(inputs, LoaderChange(1, num_workers=6, stages={"hand-over": 0.5}))
    assert set(shorter.costs.hand) == {HAND // 2}


def test_what_is_not_known_of_workers_is_drawn() -> None:
    inputs = make_inputs(0, draw_lengths(60 * MS), 12 * MS)
    takes = {
        make_scenario(LoaderBaseline(inputs, draw), LoaderChange(1, num_workers=2)).costs.take[0]
        for draw in costs.make_draws(inputs, 8)
    }
    assert len(takes) == 8
    assert min(takes) < MS < max(takes)
