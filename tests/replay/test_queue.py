"""The queues of torch's DataLoader: against an oracle, against drawings, against torch itself."""

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset

from gapless.replay.loader.queue import (
    BatchTimes,
    Consumer,
    LoaderCosts,
    Queue,
    QueueSettings,
    play_batches,
    warm_up,
)

MS = 1_000_000
durations = st.lists(st.integers(0, 50), min_size=1, max_size=30)


def expected_times(
    fetch: Sequence[int], step: Sequence[int], settings: QueueSettings, hand: int, pin: int
) -> list[tuple[int, int]]:
    """Say when 60 batches are asked for and handed over, in order, by looking at all that is done.

    Where each batch that was given out is done is known at once; the thread that pins goes through
    them by that; nothing is remembered but lists.
    """
    n_batches = 60
    free_ns = [0] * settings.workers
    done_ns = list[int]()
    ready = dict[int, int]()
    time_pairs = list[tuple[int, int]]()
    pinning = now = 0

    def give_out(now_ns: int) -> None:
        if len(done_ns) < n_batches:
            worker = len(done_ns) % settings.workers
            free_ns[worker] = max(now_ns, free_ns[worker]) + fetch[len(done_ns) % len(fetch)]
            done_ns.append(free_ns[worker])

    for _ in range(settings.workers * settings.prefetch):
        give_out(0)
    for due in range(n_batches):
        waiting = sorted(
            (end, index)
            for index, end in enumerate(done_ns)
            if index not in ready and end <= done_ns[due]
        )
        for end, index in waiting:
            pinning = max(pinning, end) + pin
            ready[index] = pinning
        hand_over = max(now, ready[due]) + hand
        time_pairs.append((now, hand_over))
        give_out(hand_over)
        now = hand_over + step[due % len(step)]
    return time_pairs


@given(
    durations,
    durations,
    st.integers(1, 5),
    st.integers(1, 4),
    st.tuples(st.integers(0, 9), st.integers(0, 9)),
)
def test_in_order_it_hands_over_when_the_oracle_does(
    fetch: list[int], step: list[int], workers: int, prefetch: int, hand_and_pin: tuple[int, int]
) -> None:
    hand, pin = hand_and_pin
    settings = QueueSettings(workers, prefetch, pinned=True, batches=60)
    costs = LoaderCosts(fetch, pin=[pin], hand=[hand])
    batch_times = play_batches(Queue(settings, costs), Consumer(step), 60)
    assert list(zip(batch_times.asks, batch_times.hand_overs, strict=True)) == expected_times(
        fetch, step, settings, hand, pin
    )


@given(durations, durations, st.integers(0, 9))
def test_without_workers_a_batch_is_made_while_it_is_asked_for(
    fetch: list[int], step: list[int], hand: int
) -> None:
    batch_times = play_batches(
        Queue(QueueSettings(0), LoaderCosts(fetch, hand=[hand])), Consumer(step), 40
    )
    waits = [
        hand_over - ask
        for ask, hand_over in zip(batch_times.asks, batch_times.hand_overs, strict=True)
    ]
    assert waits == [fetch[number % len(fetch)] + hand for number in range(40)]
    host_times = [
        ask - hand_over
        for hand_over, ask in zip(batch_times.hand_overs[:-1], batch_times.asks[1:], strict=True)
    ]
    assert host_times == [step[number % len(step)] for number in range(39)]


@given(durations, durations, st.integers(1, 5), st.integers(1, 4), st.booleans())
def test_batches_are_never_handed_over_before_they_are_asked_for_or_in_the_past(
    fetch: list[int], step: list[int], workers: int, prefetch: int, in_order: bool
) -> None:
    settings = QueueSettings(workers, prefetch, in_order=in_order, batches=25)
    costs = LoaderCosts(fetch, take=[2], hand=[1], transit=3, fork=2, begin=4, close=5, reset=1)
    batch_times = play_batches(Queue(settings, costs), Consumer(step), 60)
    assert all(hand_over > ask for ask, hand_over in ask_pairs(batch_times))
    assert all(before <= after for before, after in pairwise(batch_times.hand_overs))


def ask_pairs(batch_times: BatchTimes) -> list[tuple[int, int]]:
    return list(zip(batch_times.asks, batch_times.hand_overs, strict=True))


def test_a_batch_that_is_done_early_is_held_back_until_it_is_due() -> None:
    settings = QueueSettings(2, 1)
    batch_times = play_batches(Queue(settings, LoaderCosts([50, 10])), Consumer([0]), 4)
    # Worker 1 is done with batch 1 at 10, and given another list once batch 0 is handed over.
    assert batch_times.hand_overs == (50, 50, 100, 100)


def test_out_of_order_the_batch_that_is_there_is_handed_over() -> None:
    settings = QueueSettings(2, 1, in_order=False)
    batch_times = play_batches(
        Queue(settings, LoaderCosts([50, 10, 10, 10, 10, 10])), Consumer([0]), 5
    )
    assert batch_times.hand_overs == (10, 20, 30, 40, 50)


def test_out_of_order_a_worker_without_room_is_passed_over() -> None:
    settings = QueueSettings(2, 2, in_order=False)
    batch_times = play_batches(Queue(settings, LoaderCosts([100, 10])), Consumer([0]), 6)
    # Worker 0 is at batches 0 and 2 until 200; what follows goes to worker 1 until 0 is taken.
    assert batch_times.hand_overs == (10, 20, 100, 120, 130, 140)


def test_a_message_that_is_not_due_is_taken_all_the_same() -> None:
    early = play_batches(
        Queue(QueueSettings(2, 1), LoaderCosts([50, 10], take=[5])), Consumer([0]), 2
    )
    assert early.hand_overs == (55, 55)  # batch 1 was taken at 15, while batch 0 was waited for
    late = play_batches(
        Queue(QueueSettings(2, 1), LoaderCosts([10, 50], take=[5])), Consumer([100]), 2
    )
    assert late.hand_overs == (
        15,
        125,
    )  # batch 2 came at 25, before batch 1, and was taken before it


def test_the_next_list_is_given_out_at_the_hand_over() -> None:
    batch_times = play_batches(Queue(QueueSettings(1, 1), LoaderCosts([10])), Consumer([30]), 3)
    assert batch_times.hand_overs == (10, 40, 70)
    alone = play_batches(Queue(QueueSettings(1, 1), LoaderCosts([10])), Consumer([4]), 3)
    assert alone.hand_overs == (10, 20, 30)


def test_workers_that_stay_begin_an_iteration_without_being_started() -> None:
    costs = LoaderCosts([10], fork=100, begin=1000, close=50, reset=7)
    restarting = play_batches(Queue(QueueSettings(2, 1, batches=2), costs), Consumer([0]), 4)
    staying = play_batches(
        Queue(QueueSettings(2, 1, persistent=True, batches=2), costs), Consumer([0]), 4
    )
    assert restarting.hand_overs[:2] == staying.hand_overs[:2]
    assert restarting.hand_overs[1] == 2 * 100 + 1000 + 10
    assert restarting.hand_overs[2] == restarting.hand_overs[1] + 50 + 100 + 1000 + 10
    assert staying.hand_overs[2] == staying.hand_overs[1] + 7 + 10


def test_nothing_of_the_next_iteration_is_made_ahead() -> None:
    costs = LoaderCosts([10])
    batch_times = play_batches(Queue(QueueSettings(2, 4, batches=3), costs), Consumer([100]), 4)
    assert batch_times.hand_overs[2] - batch_times.asks[2] == 0
    assert batch_times.hand_overs[3] - batch_times.asks[3] == 10


def test_a_device_bounds_how_fast_batches_are_asked_for() -> None:
    queue = Queue(QueueSettings(2, 2), LoaderCosts([1]))
    batch_times = play_batches(queue, Consumer([3], device=20), 50)
    assert batch_times.step(10) == 20
    assert (
        play_batches(Queue(QueueSettings(0), LoaderCosts([30])), Consumer([3], device=20), 50).step(
            10
        )
        == 33
    )


def test_a_loader_that_ran_before_has_a_full_queue() -> None:
    costs = LoaderCosts([10])
    cold = Queue(QueueSettings(2, 2), costs).hand_over(1000)
    warm = warm_up(Queue(QueueSettings(2, 2), costs), Consumer([100]), 20, end_ns=900)
    assert cold == 1010
    assert warm.hand_over(1000) == 1000
    assert [warm.hand_over(1000) for _ in range(3)] == [1000, 1000, 1000]
    assert warm.hand_over(1000) == 1010


class SleepingDataset(Dataset[int]):
    """Samples that take as long as they say, without a processor."""

    def __init__(self, lengths: Sequence[float]) -> None:
        self.lengths = lengths

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> int:
        time.sleep(self.lengths[index])
        return index


def measure_loader(loader: "DataLoader[int]", step_s: float) -> BatchTimes:
    """Return when torch was asked for batches and handed them over, in ns."""
    asks, hand_overs = list[int](), list[int]()
    batches = iter(loader)
    for _ in range(60):
        asks.append(time.monotonic_ns())
        next(batches)
        hand_overs.append(time.monotonic_ns())
        time.sleep(step_s)
    return BatchTimes(tuple(asks), tuple(hand_overs))


def uneven_length_s(number: int) -> float:
    return 0.012 + 0.05 * (number % 7 == 3) + 0.004 * (number % 3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize(("workers", "prefetch"), [(0, 2), (1, 2), (2, 1), (2, 4), (4, 2)])
def test_it_hands_over_when_torch_does(workers: int, prefetch: int, in_order: bool) -> None:
    lengths = [uneven_length_s(number) for number in range(60)]
    options: dict[str, Any] = {"prefetch_factor": prefetch} if workers else {}
    loader: DataLoader[int] = DataLoader(
        SleepingDataset(lengths), batch_size=None, num_workers=workers, in_order=in_order, **options
    )
    measured = quickest_run(lambda: measure_loader(loader, 0.008), 2)
    host = [
        after - before
        for before, after in zip(measured.hand_overs[:-1], measured.asks[1:], strict=True)
    ]
    waits = sorted(hand_over - ask for ask, hand_over in ask_pairs(measured))
    hand = waits[0] if workers else 200_000  # of a batch that was there
    costs = LoaderCosts([round(length * 1e9) + 150_000 for length in lengths], hand=[hand])
    settings = QueueSettings(workers, prefetch, in_order=in_order, batches=60)
    batch_times = play_batches(Queue(settings, costs), Consumer(host), 60)
    assert batch_times.step() == pytest.approx(measured.step(), rel=0.08)


def quickest_run(act: Callable[[], BatchTimes], times: int) -> BatchTimes:
    """Return the quickest of several runs: the least disturbed."""
    torch.manual_seed(0)
    return min((act() for _ in range(times)), key=BatchTimes.step)
