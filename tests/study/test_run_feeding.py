"""What a replay of a loader is made of: from marks and fetches written by hand."""

import pytest

from gapless.model.recording import Window
from gapless.replay.service import Inputs
from gapless.study.recorded.facts import facts
from gapless.study.recorded.feeding import feedings
from tests.study.recording import MS, Log, recording


def alone(log: Log, *workers: Log) -> Inputs:
    run = recording(log, *workers, ended=100_000)
    found = feedings(run, facts(run), None, None)
    assert len(found) == 1
    return found[0]


def at_home(many: int = 60) -> Log:
    """Give a training without workers: 70 ms of waiting, 64 in a fetch, and 30 beside."""
    log = Log(end=100_000)
    log.fact("loader", 0, ("train.py", 41), num_workers=0, batch_size=4)
    log.fact("batch", 0, None, bytes=1000)
    log.mark("iter", 5, 6)
    for at in range(many):
        start = 10 + 100 * at
        log.mark("next", start, start + 70, value=at)
        stages = {"read": 24, "decode": 40} if at % 2 else {}
        times = {"cpu": 40 * MS, "run_queue": 4 * MS, "samples": 4}
        log.fetch(start + 5, start + 69, sequence=at, **times, **stages)
        log.rows[-1] |= {"decode_cpu": 40 * MS} if stages else {}
        log.steps(start + 90)
    return log


def test_a_wait_without_workers_is_parted_as_its_fetch() -> None:
    found = alone(at_home())
    assert len(found.rows) == 58  # the first two end before the first step does
    assert set(found.rows.host.tolist()) == {30 * MS}
    assert set(found.rows.wait.tolist()) == {70 * MS}
    parts = (found.rows.on, found.rows.queue, found.rows.off)
    assert [set(one.tolist()) for one in parts] == [{40 * MS}, {4 * MS}, {20 * MS}]
    assert found.rows.step() == 100 * MS
    assert (found.samples, found.bytes) == (4, 1000)
    assert (found.transit, len(found.hand), found.device_ns) == (None, 0, None)


def test_how_many_processors_the_training_used_is_that_of_its_steps() -> None:
    run = recording(
        at_home(), ended=100_000, series={"process.10.cpu": ([50, 1000, 2000], [900, 150, 170])}
    )
    assert feedings(run, facts(run), None, None)[0].used == 1.6
    assert alone(at_home()).used is None


def test_samples_that_hold_set_up_tell_nothing_of_steps() -> None:
    series: dict[str, tuple[list[float], list[float]]] = {
        "process.10.cpu": ([600, 3000, 5000], [400.0, 60.0, 50.0]),
        "process.10.run_queue": ([600, 3000, 5000], [0.0, 30.0, 40.0]),
    }
    found = feedings(
        run := recording(at_home(), ended=100_000, series=series), facts(run), None, None
    )
    assert found[0].used == pytest.approx(0.55)
    assert found[0].delayed == pytest.approx(0.35)


def test_stages_are_shares_of_time_on_and_off_a_processor() -> None:
    assert alone(at_home()).stages == {"read": (0, 1), "decode": (1, 0)}


def test_batches_of_windows_are_left_out_and_what_follows_is_no_neighbour() -> None:
    log = at_home()
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
    assert len(alone(log).rows) < 58 - 5


def test_what_ends_and_begins_iterations_is_a_turn() -> None:
    log = Log(end=100_000)
    log.fact("loader", 0, ("train.py", 41), num_workers=0, batch_size=4)
    at = 0
    for _ in range(8):
        log.mark("iter", at, at + 3)
        for position in range(5):
            log.mark("next", at + 5, at + 15, value=position)
            log.fetch(at + 5, at + 15, sequence=position)
            log.steps(at + 19)
            at += 20
        log.mark("next", at, at + 4, value=5, flags=1)
        at += 4
    found = alone(log)
    assert found.turns.batches == 5
    assert found.turns.begin == 3 * MS
    assert set(found.rows.turn.tolist()) == {0, 7 * MS}
    assert int((found.rows.turn > 0).sum()) == 7
    assert set(found.rows.host.tolist()) == {10 * MS, 7 * MS}


def fed(*, pinned: bool = False) -> tuple[Log, Log]:
    """Give a training with one worker: every second batch was made long before."""
    log, worker = Log(end=100_000), Log("worker", 20, worker=0, loader=0, end=100_000)
    many = {"num_workers": 1, "prefetch_factor": 2, "pin_memory": pinned}
    log.fact("loader", 0, ("train.py", 41), batch_size=4, **many)
    log.mark("iter", 0, 1)
    for at in range(80):
        start = 100 + 100 * at
        late = at % 2 * 40
        got = start + late + 6 if late else start + 2
        log.mark("dispatch", start - 71, start - 70, value=at << 16)
        if pinned:
            log.mark("pin", start + late - 20, start + late - 17, thread=7)
        log.mark("next", start, got, value=at)
        end = start + (late or -5)
        worker.fetch(end - 30, end, sequence=at, cpu=30 * MS, run_queue=0)
        log.steps(start + 90)
    return log, worker


def test_a_hand_over_is_what_a_batch_takes_that_is_there() -> None:
    found = alone(*fed())
    assert set(found.hand.tolist()) == {2 * MS}
    assert found.transit == 4 * MS
    assert found.dispatch == MS
    assert int((found.rows.on == 30 * MS).sum()) == len(found.rows)
    assert found.turns.batches is None


def test_a_batch_that_was_taken_while_another_was_waited_for_is_no_hand_over() -> None:
    log, *workers = (Log(end=100_000), Log("worker", 20, worker=0, loader=0, end=100_000))
    other = Log("worker", 21, worker=1, loader=0, end=100_000)
    log.fact("loader", 0, ("train.py", 41), batch_size=4, num_workers=2, prefetch_factor=2)
    log.mark("iter", 0, 1)
    start = 100
    for at in range(80):
        slow = at % 4 == 2  # made by the first worker, while the second made the one after it
        got = start + (60 if slow else 0 if at % 4 == 3 else 3)
        log.mark("dispatch", start - 21, start - 20, value=(at << 16) | at % 2)
        log.mark("next", start, got, value=at)
        end = got - 4 if slow else start - 10 - 30 * (at % 4 == 3)
        (other if at % 2 else workers[0]).fetch(end - 5, end, sequence=at // 2, cpu=5 * MS)
        log.steps(got + 30)
        start = got + 40
    found = alone(log, *workers, other)
    assert set(found.hand.tolist()) == {3 * MS}


def test_pinning_is_measured_where_a_loader_pins() -> None:
    found = alone(*fed(pinned=True))
    assert set(found.pin.tolist()) == {3 * MS}
    assert found.loader.pin_memory


def test_a_loader_that_only_evaluates_feeds_no_training() -> None:
    log = at_home(10)
    log.mark("mode", 1, value=0)
    run = recording(log, ended=100_000)
    assert feedings(run, facts(run), None, None) == ()
