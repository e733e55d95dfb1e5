"""Loaders that are switched while the training goes through them, and back."""

from collections.abc import Iterator

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from gapless.parts import device_prefetcher
from gapless.payload.trial import second_loaders
from gapless.payload.trial.second_loaders import LOADER, LoaderEdits


class Numbers(Dataset[int]):
    """Twelve numbers; as thousands, how many workers made each."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> int:
        worker = get_worker_info()
        return index + 1000 * (0 if worker is None else worker.num_workers)


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(6))


@pytest.fixture(autouse=True)
def follow() -> Iterator[None]:
    second_loaders.follow()
    yield
    second_loaders.forget()


def edits(**values: int) -> LoaderEdits:
    documents = [
        {"kind": "set_argument", "target": LOADER, "name": name, "value": value}
        for name, value in values.items()
    ]
    return LoaderEdits(list(enumerate(documents, 1000)))


def workers_of(batches: Iterator[torch.Tensor], count: int) -> list[int]:
    return [int(next(batches)) // 1000 for _ in range(count)]


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("is_persistent", [False, True])
def test_a_second_loader_gives_the_batches_while_it_is_on(
    workers: int, *, is_persistent: bool
) -> None:
    loader = DataLoader(
        Numbers(), num_workers=workers, persistent_workers=is_persistent and workers > 0
    )
    side = edits(num_workers=2)
    batches = iter(loader)
    assert workers_of(batches, 3) == [workers] * 3
    undo = side.apply()
    assert workers_of(batches, 4) == [2] * 4
    undo()
    assert workers_of(batches, 2) == [workers] * 2
    undo = side.apply()
    assert workers_of(batches, 3) == [2] * 3
    assert next(batches, None) is None, "an epoch has as many batches as ever"
    batches = iter(loader)
    assert workers_of(batches, 5) == [2] * 5
    undo()
    assert workers_of(batches, 7) == [workers] * 7
    assert next(batches, None) is None
    batches = iter(loader)
    assert [int(batch) for batch in batches] == [index + 1000 * workers for index in range(12)]
    side.close()


def test_the_loader_goes_on_where_it_paused() -> None:
    loader = DataLoader(Numbers(), num_workers=1)
    batches = iter(loader)
    before = [int(next(batches)) for _ in range(2)]
    side = edits(num_workers=0)
    undo = side.apply()
    assert int(next(batches)) == 0
    undo()
    assert before == [1000, 1001]
    assert int(next(batches)) == 1002


def test_a_stream_ends_where_it_ends() -> None:
    batches = iter(DataLoader(Stream()))
    next(batches)
    edits(num_workers=0).apply()
    assert [int(batch) for batch in batches] == list(range(6))


def test_without_a_loader_that_is_gone_through_nothing_can_be_switched() -> None:
    list(DataLoader(Numbers()))
    with pytest.raises(ValueError, match="no loader that it is about feeds the training"):
        edits(num_workers=2).apply()


def test_what_a_loader_makes_ahead_is_known() -> None:
    batches = iter(DataLoader(Numbers(), num_workers=1, prefetch_factor=3))
    assert second_loaders.find_depth() == 3
    side = edits(num_workers=2, prefetch_factor=5)
    side.apply()()
    assert side.find_depth() == 10
    del batches


class Lane:
    """What stands for a stream of a GPU: batches that were sent come back as tens of thousands."""

    def __init__(self, _device: object) -> None:
        self.n_sent = 0

    def send(self, batch: torch.Tensor) -> torch.Tensor:
        self.n_sent += 1
        return batch + 10_000

    def arrive(self, batch: torch.Tensor) -> torch.Tensor:
        return batch


def find_no_device(_device: object) -> None:
    """Find no device to copy to."""


@pytest.mark.parametrize("workers", [0, 2])
def test_a_prefetcher_copies_ahead_while_it_is_on(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_prefetcher, "CopyLane", Lane)
    monkeypatch.setattr(device_prefetcher, "cuda_device", str)
    side = LoaderEdits([(1000, {"kind": "wrap", "target": LOADER, "part": "device-prefetcher"})])
    loader = DataLoader(Numbers(), num_workers=workers)
    batches, own = iter(loader), 1000 * workers
    assert [int(next(batches)) for _ in range(2)] == [own, own + 1]
    undo = side.apply()
    assert [int(next(batches)) for _ in range(3)] == [own + 10_000 + index for index in range(3)]
    assert side.find_depth() == 2 * workers + 1
    undo()
    assert int(next(batches)) == own + 2, "the loader goes on where it paused"
    undo = side.apply()
    copied = [int(batch) - own for batch in batches]
    assert copied == [10_003 + index for index in range(6)], "an epoch has as many batches as ever"
    assert [int(batch) - own for batch in loader] == [10_000 + index for index in range(12)]
    undo()
    assert [int(batch) - own for batch in loader] == list(range(12))
    side.close()


def test_without_a_device_there_is_nothing_to_copy_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_prefetcher, "cuda_device", find_no_device)
    batches = iter(DataLoader(Numbers()))
    next(batches)
    side = LoaderEdits([(1000, {"kind": "wrap", "target": LOADER, "part": "device-prefetcher"})])
    with pytest.raises(ValueError, match="there is no CUDA device"):
        side.apply()
