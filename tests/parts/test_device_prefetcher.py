"""DevicePrefetcher: the loader's batches, in its order, each whole when it is handed over.

There is no device here: a lane stands in whose copies are rubbish until somebody waits for them.
What CUDA itself does is in ``tests/gpu``.
"""

from __future__ import annotations

import contextlib
import gc
import pickle
import random
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from gapless.parts import DevicePrefetcher, device_prefetcher
from gapless.parts.batches import convert

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator


class LateLane:
    """A lane on which copies are made only when their batch is waited for, in order."""

    count = 0

    def __init__(self, device: object) -> None:
        self.device = device
        self.copies: deque[tuple[int, Any, Any]] = deque()
        self.sent, self.arrived = 0, 0
        LateLane.count += 1

    def send(self, batch: Any) -> Any:  # noqa: ANN401
        self.sent += 1

        def tensor(source: Any) -> Any:  # noqa: ANN401
            copy = torch.full_like(source, -1)
            self.copies.append((self.sent, source, copy))
            return copy

        return self.sent, convert(batch, tensor, lambda obj: obj)

    def arrive(self, sent: Any) -> Any:  # noqa: ANN401
        number, batch = sent
        while self.copies and self.copies[0][0] <= number:
            _, source, copy = self.copies.popleft()
            copy.copy_(source)
        self.arrived += 1
        return batch


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_prefetcher, "cuda_device", lambda _device: "late")  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    monkeypatch.setattr(device_prefetcher, "CopyLane", LateLane)


class CountingLoader:
    """A loader that tells how many batches were taken from it."""

    def __init__(self, size: int, broken: int | None = None) -> None:
        self.size, self.broken, self.taken, self.sampler = size, broken, 0, Sampler()

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Any]:
        return CountingIterator(self)


class CountingIterator:
    """One that goes on after an error, as a DataLoader's does."""

    def __init__(self, loader: CountingLoader) -> None:
        self.loader, self.at = loader, 0

    def __iter__(self) -> CountingIterator:
        return self

    def __next__(self) -> Any:  # noqa: ANN401
        index, self.at = self.at, self.at + 1
        if index >= self.loader.size:
            raise StopIteration
        self.loader.taken += 1
        if index == self.loader.broken:
            raise ValueError(f"batch {index}")
        return {"x": torch.full((2,), index), "at": index}


class Sampler:
    """Has an epoch."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


def batch_values(batches: Any) -> list[tuple[list[int], int]]:  # noqa: ANN401
    return [(batch["x"].tolist(), batch["at"]) for batch in batches]


def expected_values(size: int) -> list[tuple[list[int], int]]:
    return [([index, index], index) for index in range(size)]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_device_the_loaders_own_iterator_is_given() -> None:
    loader = DataLoader(TensorDataset(torch.arange(4)), 2)
    assert type(iter(DevicePrefetcher(loader))) is type(iter(loader))
    assert [batch[0].tolist() for batch in DevicePrefetcher(loader)] == [[0, 1], [2, 3]]


def test_on_the_cpu_nothing_is_copied() -> None:
    batch = {"x": torch.zeros(1)}
    assert next(iter(DevicePrefetcher([batch], "cpu"))) is batch


@pytest.mark.usefixtures("late")
@pytest.mark.parametrize("ahead", [1, 2, 5])
@pytest.mark.parametrize("size", [0, 1, 2, 7])
def test_all_batches_come_whole_and_in_order(size: int, ahead: int) -> None:
    prefetcher = DevicePrefetcher(CountingLoader(size), ahead=ahead)
    for _ in range(2):
        assert batch_values(prefetcher) == expected_values(size)
    assert len(prefetcher) == size


@pytest.mark.usefixtures("late")
@pytest.mark.parametrize("ahead", [1, 3])
def test_so_many_batches_are_on_their_way(ahead: int) -> None:
    loader = CountingLoader(9)
    batches = iter(DevicePrefetcher(loader, ahead=ahead))
    for count in range(1, 9):
        next(batches)
        assert loader.taken == min(count + ahead, 9)


@pytest.mark.usefixtures("late")
def test_an_ended_iteration_stays_ended() -> None:
    batches = iter(DevicePrefetcher(CountingLoader(1)))
    assert len(batch_values(batches)) == 1
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(batches)


@pytest.mark.usefixtures("late")
@pytest.mark.parametrize("broken", [0, 1, 3, 4])
def test_an_error_comes_in_place_of_its_batch_and_the_others_come_too(broken: int) -> None:
    batches = iter(DevicePrefetcher(CountingLoader(5, broken)))
    indices: list[int] = []
    for index in range(5):
        if index == broken:
            with pytest.raises(ValueError, match=f"batch {broken}"):
                next(batches)
        else:
            indices.append(next(batches)["at"])
    assert indices == [index for index in range(5) if index != broken]
    with pytest.raises(StopIteration):
        next(batches)


@pytest.mark.usefixtures("late")
def test_an_interrupt_is_raised_at_once_and_loses_nothing() -> None:
    def batches() -> Generator[Any]:
        yield {"x": torch.zeros(2, dtype=torch.int64), "at": 0}
        raise KeyboardInterrupt

    iteration = iter(DevicePrefetcher(batches()))
    with pytest.raises(KeyboardInterrupt):
        next(iteration)
    assert batch_values(iteration) == expected_values(1)


@pytest.mark.usefixtures("late")
def test_several_iterations_go_on_at_once() -> None:
    prefetcher = DevicePrefetcher(CountingLoader(6))
    pairs = list(zip(prefetcher, prefetcher, strict=True))
    assert batch_values(first_batch for first_batch, _ in pairs) == batch_values(
        second for _, second in pairs
    )
    assert batch_values(first_batch for first_batch, _ in pairs) == expected_values(6)


@pytest.mark.usefixtures("late")
def test_one_may_be_left_early_and_nothing_of_it_stays() -> None:
    loader = CountingLoader(6)
    iteration = iter(DevicePrefetcher(loader))
    batch = next(iteration)
    iteration_ref = weakref.ref(iteration)
    del iteration
    gc.collect()
    assert iteration_ref() is None
    assert batch_values([batch]) == expected_values(1)
    assert batch_values(DevicePrefetcher(loader)) == expected_values(6)


@pytest.mark.usefixtures("late")
def test_attributes_are_the_loaders() -> None:
    loader = CountingLoader(3)
    prefetcher = DevicePrefetcher(loader)
    prefetcher.sampler.set_epoch(3)
    prefetcher.size = 2
    assert (loader.sampler.epoch, loader.size, len(prefetcher)) == (3, 2, 2)
    assert not hasattr(prefetcher, "nothing")
    with pytest.raises(TypeError):
        len(DevicePrefetcher(iter([])))


@pytest.mark.usefixtures("late")
def test_it_keeps_one_stream_and_can_be_pickled() -> None:
    LateLane.count = 0
    prefetcher = DevicePrefetcher([{"x": torch.zeros(2), "at": 0}], ahead=2)
    for _ in range(3):
        assert len(batch_values(prefetcher)) == 1
    assert LateLane.count == 1
    unpickled = pickle.loads(pickle.dumps(prefetcher))  # noqa: S301 - made here
    assert (len(unpickled), unpickled.ahead) == (1, 2)


def test_ahead_is_at_least_one() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        DevicePrefetcher([], ahead=0)


@pytest.mark.slow
@pytest.mark.usefixtures("late")
def test_100_000_batches_are_equal_to_the_bit() -> None:
    dice = random.Random(3)
    batches = [(torch.rand(dice.randrange(5)), [torch.rand(2, 2)]) for _ in range(100)]
    repeated = (batches[index % 100] for index in range(100_000))
    count = 0
    for index, (x, (y,)) in enumerate(DevicePrefetcher(repeated, ahead=3)):
        count += 1
        assert torch.equal(x, batches[index % 100][0])
        assert torch.equal(y, batches[index % 100][1][0])
    assert count == 100_000


# ── The lane, with CUDA's calls taken down ──────────────────────────────────────────────────────


class Stream:
    """Takes down what it is asked to wait for."""

    def __init__(self, device: object = None) -> None:
        self.device = device
        self.waited: list[Event] = []

    def record_event(self) -> Event:
        return Event()

    def wait_event(self, event: Event) -> None:
        self.waited.append(event)


class Event:
    """Is reached when it is told to be."""

    reached = False

    def query(self) -> bool:
        return self.reached


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch) -> Stream:
    stream = Stream()
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _device: stream)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    monkeypatch.setattr(torch.cuda, "stream", lambda _stream: contextlib.nullcontext())  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    return stream


def test_the_users_stream_waits_and_each_tensor_is_marked_as_used_on_it(
    user: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    marked: list[tuple[int, Stream]] = []

    def note(tensor: torch.Tensor, stream: Stream) -> None:
        marked.append((id(tensor), stream))

    monkeypatch.setattr(torch.Tensor, "record_stream", note)
    monkeypatch.setattr(device_prefetcher, "_pin_tensor", torch.clone)
    lane = device_prefetcher.CopyLane(torch.device("cpu"))
    sent = lane.send({"x": torch.zeros(1), "y": (torch.ones(2), "text")})
    assert user.waited == []
    batch = lane.arrive(sent)
    assert user.waited == [sent.done_event]
    assert marked == [(id(batch["x"]), user), (id(batch["y"][0]), user)]


def test_what_is_copied_from_is_kept_until_the_copy_is_done(
    user: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned: list[Any] = []

    def pin(tensor: Any) -> Any:  # noqa: ANN401
        copy = tensor.clone()
        pinned.append(weakref.ref(copy))
        return copy

    monkeypatch.setattr(device_prefetcher, "_pin_tensor", pin)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda _tensor, _stream: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    lane = device_prefetcher.CopyLane(torch.device("cpu"))
    first_batch, second = (lane.send([torch.zeros(1)]) for _ in range(2))
    events = first_batch.done_event, second.done_event
    lane.arrive(first_batch)
    del first_batch
    assert pinned[0]() is not None
    lane.arrive(second)
    del second
    events[0].reached = True
    lane.arrive(lane.send([torch.zeros(1)]))
    assert [reference() is None for reference in pinned[:2]] == [True, False]
    assert len(user.waited) == 3
