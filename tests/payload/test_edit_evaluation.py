"""Evaluation cut to a batch, or made more rarely: what trains is left alone."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from gapless.model.edit import Wrap
from tests.payload.laying import Told, laid

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_EVALUATION = Wrap("torch.nn.Module.eval", "no-evaluation")


def cadence(what: str, every: int) -> Wrap:
    return Wrap(what, "cadence", {"what": what, "every": every})


class Numbers(Dataset[torch.Tensor]):
    def __init__(self, count: int) -> None:
        self.count = count
        self.asked: list[int] = []

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        self.asked.append(index)
        return torch.full((2,), float(index))


class Stream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        yield from torch.arange(24.0).reshape(12, 2)


class Job:
    """A model that is trained, and a loader that trains it."""

    def __init__(self) -> None:
        self.model = nn.Linear(2, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-6)
        self.loader = DataLoader(Numbers(12), batch_size=2)

    def train(self, *, micro: int = 1) -> int:
        batches = 0
        for at, batch in enumerate(self.loader, 1):
            self.model(batch).sum().backward()
            if at % micro == 0:
                self.optimizer.step()
            batches += 1
        return batches

    def evaluate(self, loader: DataLoader[Any], how: str = "both") -> int:
        if how != "grad":
            self.model.eval()
        batches = 0
        with torch.no_grad() if how != "mode" else contextlib.nullcontext():
            for batch in loader:
                self.model(batch)
                batches += 1
        self.model.train()
        return batches


def begun(told: Told) -> Job:
    job = Job()
    assert job.train() == 6
    assert told.times() == 0
    return job


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_that_evaluates_gives_its_first_batch_and_reads_no_more(workers: int) -> None:
    with laid(NO_EVALUATION) as told:
        job = begun(told)
        data = Numbers(10)
        loader = DataLoader(data, batch_size=2, num_workers=workers)
        assert [job.evaluate(loader) for _ in range(3)] == [1, 1, 1]
        assert told.times() == 3
        assert job.train() == 6
        if not workers:
            assert data.asked == [0, 1] * 3
    assert job.evaluate(loader) == 5


@pytest.mark.parametrize("how", ["mode", "grad"])
def test_evaluation_is_known_by_the_models_mode_or_by_gradients(how: str) -> None:
    with laid(NO_EVALUATION) as told:
        job = begun(told)
        data = Numbers(10)
        loader = DataLoader(data, batch_size=2)
        assert [job.evaluate(loader, how) for _ in range(2)] == [1, 1]
        assert told.times() == 2
        assert data.asked == [0, 1] * 2


def test_streams_and_persistent_workers_are_cut_too() -> None:
    with laid(NO_EVALUATION) as told:
        job = begun(told)
        stream = DataLoader(Stream(), batch_size=2)
        kept = DataLoader(Numbers(10), batch_size=2, num_workers=1, persistent_workers=True)
        assert [job.evaluate(one, "mode") for one in (stream, kept, stream, kept)] == [1, 1, 1, 1]
        assert told.times() == 4
    assert (job.evaluate(stream), job.evaluate(kept)) == (6, 5)


def test_a_loader_that_trains_is_left_alone_whatever_the_mode() -> None:
    with laid(NO_EVALUATION) as told:
        job = Job()
        job.model.eval()  # as with frozen statistics
        assert job.train(micro=3) == 6
        assert job.train() == 6
        assert job.evaluate(job.loader) == 6  # the training set, looked at without gradients
        assert told.times() == 0


def test_a_loop_that_asks_a_batch_ahead_and_trains_in_eval_mode_is_left_alone() -> None:
    with laid(NO_EVALUATION) as told:
        job = Job()
        job.model.eval()
        for _ in range(2):
            batches, taken = iter(job.loader), 0
            batch = next(batches, None)
            while batch is not None:
                ahead = next(batches, None)
                job.model(batch).sum().backward()
                job.optimizer.step()
                batch, taken = ahead, taken + 1
            assert taken == 6
        assert told.times() == 0


def test_each_second_evaluation_is_whole() -> None:
    with laid(cadence("evaluation", 2)) as told:
        job = begun(told)
        loader = DataLoader(Numbers(10), batch_size=2)
        assert [job.evaluate(loader) for _ in range(4)] == [1, 5, 1, 5]
        assert [job.evaluate(loader, "mode") for _ in range(2)] == [1, 5]
        assert told.times() == 3


def test_a_cadence_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="cadence needs what"), laid(cadence("coffee", 2)):
        pass
    with pytest.raises(ValueError, match="cadence needs what"), laid(cadence("logging", 0)):
        pass
