"""What a replay of a loader is made of: from marks and fetches written by hand."""

import pytest

from gapless.model.recording import Window
from gapless.recorded.facts import facts
from gapless.recorded.loaders.whatif_inputs import loader_inputs
from gapless.replay.loader.costs import LoaderInputs
from tests.study.recording import MS, Log, recording


def inputs_of(log: Log, *workers: Log) -> LoaderInputs:
    run = recording(log, *workers, ended_ms=100_000)
    inputs = loader_inputs(run, facts(run), None, None)
    assert len(inputs) == 1
    return inputs[0]


def main_process_log(count: int = 60) -> Log:
    """Return a training without workers: 70 ms of waiting, 64 in a fetch, and 30 beside."""
    log = Log(end=100_000)
    log.add_fact("loader", 0, ("train.py", 41), num_workers=0, batch_size=4)
    log.add_fact("batch", 0, None, bytes=1000)
    log.add_mark("iter", 5, 6)
    for index in range(count):
        start = 10 + 100 * index
        log.add_mark("next", start, start + 70, value=index)
        stages = {"read": 24, "decode": 40} if index % 2 else {}
        times = {"cpu": 40 * MS, "run_queue": 4 * MS, "samples": 4}
        log.add_fetch(start + 5, start + 69, sequence=index, **times, **stages)
        log.rows[-1] |= {"decode_cpu": 40 * MS} if stages else {}
        log.add_steps(start + 90)
    return log


def test_a_wait_without_workers_is_parted_as_its_fetch() -> None:
    inputs = inputs_of(main_process_log())
    assert len(inputs.rows) == 58  # the first two end before the first step does
    assert set(inputs.rows.host.tolist()) == {30 * MS}
    assert set(inputs.rows.wait.tolist()) == {70 * MS}
    parts = (inputs.rows.on, inputs.rows.queue, inputs.rows.off)
    assert [set(column.tolist()) for column in parts] == [{40 * MS}, {4 * MS}, {20 * MS}]
    assert inputs.rows.step() == 100 * MS
    assert (inputs.samples, inputs.bytes) == (4, 1000)
    assert (inputs.transit, len(inputs.hand), inputs.device_ns) == (None, 0, None)


def test_how_many_processors_the_training_used_is_that_of_its_steps() -> None:
    run = recording(
        main_process_log(),
        ended_ms=100_000,
        series={"process.10.cpu": ([50, 1000, 2000], [900, 150, 170])},
    )
    assert loader_inputs(run, facts(run), None, None)[0].used_cpus == 1.6
    assert inputs_of(main_process_log()).used_cpus is None


def test_samples_that_hold_set_up_tell_nothing_of_steps() -> None:
    series: dict[str, tuple[list[float], list[float]]] = {
        "process.10.cpu": ([600, 3000, 5000], [400.0, 60.0, 50.0]),
        "process.10.run_queue": ([600, 3000, 5000], [0.0, 30.0, 40.0]),
    }
    inputs = loader_inputs(
        run := recording(main_process_log(), ended_ms=100_000, series=series),
        facts(run),
        None,
        None,
    )
    assert inputs[0].used_cpus == pytest.approx(0.55)
    assert inputs[0].delay_share == pytest.approx(0.35)


def test_stages_are_shares_of_time_on_and_off_a_processor() -> None:
    assert inputs_of(main_process_log()).stages == {"read": (0, 1), "decode": (1, 0)}


def test_batches_of_windows_are_left_out_and_what_follows_is_no_neighbour() -> None:
    log = main_process_log()
    window = Window(
        number=0,
        path=None,
        start=1_000 * MS,
        end=1_400 * MS,
        first_step=9,
        last_step=13,
        stacks=False,
        stop_ns=300 * MS,
        save_ns=300 * MS,
        discarded=None,
    )
    log.windows.append(window)
    assert len(inputs_of(log).rows) < 58 - 5


def test_what_ends_and_begins_iterations_is_a_turn() -> None:
    log = Log(end=100_000)
    log.add_fact("loader", 0, ("train.py", 41), num_workers=0, batch_size=4)
    start = 0
    for _ in range(8):
        log.add_mark("iter", start, start + 3)
        for position in range(5):
            log.add_mark("next", start + 5, start + 15, value=position)
            log.add_fetch(start + 5, start + 15, sequence=position)
            log.add_steps(start + 19)
            start += 20
        log.add_mark("next", start, start + 4, value=5, flags=1)
        start += 4
    inputs = inputs_of(log)
    assert inputs.turns.batches == 5
    assert inputs.turns.begin == 3 * MS
    assert set(inputs.rows.turn.tolist()) == {0, 7 * MS}
    assert int((inputs.rows.turn > 0).sum()) == 7
    assert set(inputs.rows.host.tolist()) == {10 * MS, 7 * MS}


def worker_logs(*, pinned: bool = False) -> tuple[Log, Log]:
    """Return a training with one worker: every second batch was made long before."""
    log, worker = Log(end=100_000), Log("worker", 20, worker=0, loader=0, end=100_000)
    settings = {"num_workers": 1, "prefetch_factor": 2, "pin_memory": pinned}
    log.add_fact("loader", 0, ("train.py", 41), batch_size=4, **settings)
    log.add_mark("iter", 0, 1)
    for index in range(80):
        start = 100 + 100 * index
        delay = index % 2 * 40
        received = start + delay + 6 if delay else start + 2
        log.add_mark("dispatch", start - 71, start - 70, value=index << 16)
        if pinned:
            log.add_mark("pin", start + delay - 20, start + delay - 17, thread=7)
        log.add_mark("next", start, received, value=index)
        end = start + (delay or -5)
        worker.add_fetch(end - 30, end, sequence=index, cpu=30 * MS, run_queue=0)
        log.add_steps(start + 90)
    return log, worker


def test_a_hand_over_is_what_a_batch_takes_that_is_there() -> None:
    inputs = inputs_of(*worker_logs())
    assert set(inputs.hand.tolist()) == {2 * MS}
    assert inputs.transit == 4 * MS
    assert inputs.dispatch == MS
    assert int((inputs.rows.on == 30 * MS).sum()) == len(inputs.rows)
    assert inputs.turns.batches is None


def test_a_batch_that_was_taken_while_another_was_waited_for_is_no_hand_over() -> None:
    log, *workers = (Log(end=100_000), Log("worker", 20, worker=0, loader=0, end=100_000))
    second_worker = Log("worker", 21, worker=1, loader=0, end=100_000)
    log.add_fact("loader", 0, ("train.py", 41), batch_size=4, num_workers=2, prefetch_factor=2)
    log.add_mark("iter", 0, 1)
    start = 100
    for index in range(80):
        is_slow = index % 4 == 2  # made by the first worker, while the second made the one after it
        received = start + (60 if is_slow else 0 if index % 4 == 3 else 3)
        log.add_mark("dispatch", start - 21, start - 20, value=(index << 16) | index % 2)
        log.add_mark("next", start, received, value=index)
        end = received - 4 if is_slow else start - 10 - 30 * (index % 4 == 3)
        (second_worker if index % 2 else workers[0]).add_fetch(
            end - 5, end, sequence=index // 2, cpu=5 * MS
        )
        log.add_steps(received + 30)
        start = received + 40
    inputs = inputs_of(log, *workers, second_worker)
    assert set(inputs.hand.tolist()) == {3 * MS}


def test_pinning_is_measured_where_a_loader_pins() -> None:
    inputs = inputs_of(*worker_logs(pinned=True))
    assert set(inputs.pin.tolist()) == {3 * MS}
    assert inputs.loader.pin_memory


def test_a_loader_that_only_evaluates_feeds_no_training() -> None:
    log = main_process_log(10)
    log.add_mark("mode", 1, value=0)
    run = recording(log, ended_ms=100_000)
    assert loader_inputs(run, facts(run), None, None) == ()
