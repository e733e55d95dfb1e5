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

from gapless.replay.queue import Asked, Consumer, Costs, Queue, Settings, simulate, warmed

MS = 1_000_000
times = st.lists(st.integers(0, 50), min_size=1, max_size=30)


def oracle(
    fetch: Sequence[int], step: Sequence[int], settings: Settings, hand: int, pin: int
) -> list[tuple[int, int]]:
    """Say when 60 batches are asked for and handed over, in order, by looking at all that is done.

    Where each batch that was given out is done is known at once; the thread that pins goes through
    them by that; nothing is remembered but lists.
    """
    many = 60
    free = [0] * settings.workers
    done = list[int]()
    ready = dict[int, int]()
    seen = list[tuple[int, int]]()
    pinning = now = 0

    def give(at: int) -> None:
        if len(done) < many:
            worker = len(done) % settings.workers
            free[worker] = max(at, free[worker]) + fetch[len(done) % len(fetch)]
            done.append(free[worker])

    for _ in range(settings.workers * settings.prefetch):
        give(0)
    for due in range(many):
        waiting = sorted(
            (end, at) for at, end in enumerate(done) if at not in ready and end <= done[due]
        )
        for end, at in waiting:
            pinning = max(pinning, end) + pin
            ready[at] = pinning
        got = max(now, ready[due]) + hand
        seen.append((now, got))
        give(got)
        now = got + step[due % len(step)]
    return seen


@given(
    times,
    times,
    st.integers(1, 5),
    st.integers(1, 4),
    st.tuples(st.integers(0, 9), st.integers(0, 9)),
)
def test_in_order_it_hands_over_when_the_oracle_does(
    fetch: list[int], step: list[int], workers: int, prefetch: int, own: tuple[int, int]
) -> None:
    hand, pin = own
    settings = Settings(workers, prefetch, pinned=True, batches=60)
    costs = Costs(fetch, pin=[pin], hand=[hand])
    played = simulate(Queue(settings, costs), Consumer(step), 60)
    assert list(zip(played.ask, played.got, strict=True)) == oracle(
        fetch, step, settings, hand, pin
    )


@given(times, times, st.integers(0, 9))
def test_without_workers_a_batch_is_made_while_it_is_asked_for(
    fetch: list[int], step: list[int], hand: int
) -> None:
    played = simulate(Queue(Settings(0), Costs(fetch, hand=[hand])), Consumer(step), 40)
    made = [got - ask for ask, got in zip(played.ask, played.got, strict=True)]
    assert made == [fetch[number % len(fetch)] + hand for number in range(40)]
    between = [ask - got for got, ask in zip(played.got[:-1], played.ask[1:], strict=True)]
    assert between == [step[number % len(step)] for number in range(39)]


@given(times, times, st.integers(1, 5), st.integers(1, 4), st.booleans())
def test_batches_are_never_handed_over_before_they_are_asked_for_or_in_the_past(
    fetch: list[int], step: list[int], workers: int, prefetch: int, in_order: bool
) -> None:
    settings = Settings(workers, prefetch, in_order=in_order, batches=25)
    costs = Costs(fetch, take=[2], hand=[1], transit=3, fork=2, begin=4, close=5, reset=1)
    played = simulate(Queue(settings, costs), Consumer(step), 60)
    assert all(got > ask for ask, got in each(played))
    assert all(before <= after for before, after in pairwise(played.got))


def each(played: Asked) -> list[tuple[int, int]]:
    return list(zip(played.ask, played.got, strict=True))


def test_a_batch_that_is_done_early_is_held_back_until_it_is_due() -> None:
    settings = Settings(2, 1)
    played = simulate(Queue(settings, Costs([50, 10])), Consumer([0]), 4)
    # Worker 1 is done with batch 1 at 10, and given another list once batch 0 is handed over.
    assert played.got == (50, 50, 100, 100)


def test_out_of_order_the_batch_that_is_there_is_handed_over() -> None:
    settings = Settings(2, 1, in_order=False)
    played = simulate(Queue(settings, Costs([50, 10, 10, 10, 10, 10])), Consumer([0]), 5)
    assert played.got == (10, 20, 30, 40, 50)


def test_out_of_order_a_worker_without_room_is_passed_over() -> None:
    settings = Settings(2, 2, in_order=False)
    played = simulate(Queue(settings, Costs([100, 10])), Consumer([0]), 6)
    # Worker 0 is at batches 0 and 2 until 200; what follows goes to worker 1 until 0 is taken.
    assert played.got == (10, 20, 100, 120, 130, 140)


def test_a_message_that_is_not_due_is_taken_all_the_same() -> None:
    taken = simulate(Queue(Settings(2, 1), Costs([50, 10], take=[5])), Consumer([0]), 2)
    assert taken.got == (55, 55)  # batch 1 was taken at 15, while batch 0 was waited for
    late = simulate(Queue(Settings(2, 1), Costs([10, 50], take=[5])), Consumer([100]), 2)
    assert late.got == (15, 125)  # batch 2 came at 25, before batch 1, and was taken before it


def test_the_next_list_is_given_out_at_the_hand_over() -> None:
    played = simulate(Queue(Settings(1, 1), Costs([10])), Consumer([30]), 3)
    assert played.got == (10, 40, 70)
    alone = simulate(Queue(Settings(1, 1), Costs([10])), Consumer([4]), 3)
    assert alone.got == (10, 20, 30)


def test_workers_that_stay_begin_an_iteration_without_being_started() -> None:
    costs = Costs([10], fork=100, begin=1000, close=50, reset=7)
    anew = simulate(Queue(Settings(2, 1, batches=2), costs), Consumer([0]), 4)
    stays = simulate(Queue(Settings(2, 1, persistent=True, batches=2), costs), Consumer([0]), 4)
    assert anew.got[:2] == stays.got[:2]
    assert anew.got[1] == 2 * 100 + 1000 + 10
    assert anew.got[2] == anew.got[1] + 50 + 100 + 1000 + 10
    assert stays.got[2] == stays.got[1] + 7 + 10


def test_nothing_of_the_next_iteration_is_made_ahead() -> None:
    costs = Costs([10])
    played = simulate(Queue(Settings(2, 4, batches=3), costs), Consumer([100]), 4)
    assert played.got[2] - played.ask[2] == 0
    assert played.got[3] - played.ask[3] == 10


def test_a_device_bounds_how_fast_batches_are_asked_for() -> None:
    queue = Queue(Settings(2, 2), Costs([1]))
    played = simulate(queue, Consumer([3], device=20), 50)
    assert played.step(10) == 20
    assert simulate(Queue(Settings(0), Costs([30])), Consumer([3], device=20), 50).step(10) == 33


def test_a_loader_that_ran_before_has_a_full_queue() -> None:
    costs = Costs([10])
    cold = Queue(Settings(2, 2), costs).got(1000)
    warm = warmed(Queue(Settings(2, 2), costs), Consumer([100]), 20, at=900)
    assert cold == 1010
    assert warm.got(1000) == 1000
    assert [warm.got(1000) for _ in range(3)] == [1000, 1000, 1000]
    assert warm.got(1000) == 1010


class Sleeper(Dataset[int]):
    """Samples that take as long as they say, without a processor."""

    def __init__(self, lengths: Sequence[float]) -> None:
        self.lengths = lengths

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> int:
        time.sleep(self.lengths[index])
        return index


def measured(loader: "DataLoader[int]", step_s: float) -> Asked:
    """Give when torch was asked for batches and handed them over, in ns."""
    ask, got = list[int](), list[int]()
    batches = iter(loader)
    for _ in range(60):
        ask.append(time.monotonic_ns())
        next(batches)
        got.append(time.monotonic_ns())
        time.sleep(step_s)
    return Asked(tuple(ask), tuple(got))


def uneven(number: int) -> float:
    return 0.012 + 0.05 * (number % 7 == 3) + 0.004 * (number % 3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize(("workers", "prefetch"), [(0, 2), (1, 2), (2, 1), (2, 4), (4, 2)])
def test_it_hands_over_when_torch_does(workers: int, prefetch: int, in_order: bool) -> None:
    lengths = [uneven(number) for number in range(60)]
    many: dict[str, Any] = {"prefetch_factor": prefetch} if workers else {}
    loader: DataLoader[int] = DataLoader(
        Sleeper(lengths), batch_size=None, num_workers=workers, in_order=in_order, **many
    )
    real = closest(lambda: measured(loader, 0.008), 2)
    host = [after - before for before, after in zip(real.got[:-1], real.ask[1:], strict=True)]
    waits = sorted(got - ask for ask, got in each(real))
    hand = waits[0] if workers else 200_000  # of a batch that was there
    costs = Costs([round(one * 1e9) + 150_000 for one in lengths], hand=[hand])
    settings = Settings(workers, prefetch, in_order=in_order, batches=60)
    played = simulate(Queue(settings, costs), Consumer(host), 60)
    assert played.step() == pytest.approx(real.step(), rel=0.08)


def closest(act: Callable[[], Asked], times: int) -> Asked:
    """Give the quickest of several runs: the least disturbed."""
    torch.manual_seed(0)
    return min((act() for _ in range(times)), key=Asked.step)
