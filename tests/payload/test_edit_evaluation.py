"""Evaluation cut to a batch, or made more rarely: what trains is left alone."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from gapless.model.edit import Wrap
from tests.payload.laying import EditLog, apply_edits

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_EVALUATION = Wrap("torch.nn.Module.eval", "no-evaluation")


def make_cadence(subject: str, period: int) -> Wrap:
    return Wrap(subject, "cadence", {"what": subject, "every": period})


class Numbers(Dataset[torch.Tensor]):
    def __init__(self, count: int) -> None:
        self.count = count
        self.read_indices: list[int] = []

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        self.read_indices.append(index)
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
        for number, batch in enumerate(self.loader, 1):
            self.model(batch).sum().backward()
            if number % micro == 0:
                self.optimizer.step()
            batches += 1
        return batches

    def evaluate(self, loader: DataLoader[Any], way: str = "both") -> int:
        if way != "grad":
            self.model.eval()
        batches = 0
        with torch.no_grad() if way != "mode" else contextlib.nullcontext():
            for batch in loader:
                self.model(batch)
                batches += 1
        self.model.train()
        return batches


def start_job(edit_log: EditLog) -> Job:
    job = Job()
    assert job.train() == 6
    assert edit_log.times() == 0
    return job


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_that_evaluates_gives_its_first_batch_and_reads_no_more(workers: int) -> None:
    with apply_edits(NO_EVALUATION) as edit_log:
        job = start_job(edit_log)
        data = Numbers(10)
        loader = DataLoader(data, batch_size=2, num_workers=workers)
        assert [job.evaluate(loader) for _ in range(3)] == [1, 1, 1]
        assert edit_log.times() == 3
        assert job.train() == 6
        if not workers:
            assert data.read_indices == [0, 1] * 3
    assert job.evaluate(loader) == 5


@pytest.mark.parametrize("way", ["mode", "grad"])
def test_evaluation_is_known_by_the_models_mode_or_by_gradients(way: str) -> None:
    with apply_edits(NO_EVALUATION) as edit_log:
        job = start_job(edit_log)
        data = Numbers(10)
        loader = DataLoader(data, batch_size=2)
        assert [job.evaluate(loader, way) for _ in range(2)] == [1, 1]
        assert edit_log.times() == 2
        assert data.read_indices == [0, 1] * 2


def test_streams_and_persistent_workers_are_cut_too() -> None:
    with apply_edits(NO_EVALUATION) as edit_log:
        job = start_job(edit_log)
        stream = DataLoader(Stream(), batch_size=2)
        persistent = DataLoader(Numbers(10), batch_size=2, num_workers=1, persistent_workers=True)
        assert [
            job.evaluate(loader, "mode") for loader in (stream, persistent, stream, persistent)
        ] == [1, 1, 1, 1]
        assert edit_log.times() == 4
    assert (job.evaluate(stream), job.evaluate(persistent)) == (6, 5)


def test_a_loader_that_trains_is_left_alone_whatever_the_mode() -> None:
    with apply_edits(NO_EVALUATION) as edit_log:
        job = Job()
        job.model.eval()  # as with frozen statistics
        assert job.train(micro=3) == 6
        assert job.train() == 6
        assert job.evaluate(job.loader) == 6  # the training set, looked at without gradients
        assert edit_log.times() == 0


def test_a_loop_that_asks_a_batch_ahead_and_trains_in_eval_mode_is_left_alone() -> None:
    with apply_edits(NO_EVALUATION) as edit_log:
        job = Job()
        job.model.eval()
        for _ in range(2):
            batches, n_taken = iter(job.loader), 0
            batch = next(batches, None)
            while batch is not None:
                ahead = next(batches, None)
                job.model(batch).sum().backward()
                job.optimizer.step()
                batch, n_taken = ahead, n_taken + 1
            assert n_taken == 6
        assert edit_log.times() == 0


def test_each_second_evaluation_is_whole() -> None:
    with apply_edits(make_cadence("evaluation", 2)) as edit_log:
        job = start_job(edit_log)
        loader = DataLoader(Numbers(10), batch_size=2)
        assert [job.evaluate(loader) for _ in range(4)] == [1, 5, 1, 5]
        assert [job.evaluate(loader, "mode") for _ in range(2)] == [1, 5]
        assert edit_log.times() == 3


def test_a_cadence_of_nothing_is_refused() -> None:
    with (
        pytest.raises(ValueError, match="cadence needs what"),
        apply_edits(make_cadence("coffee", 2)),
    ):
        pass
    with (
        pytest.raises(ValueError, match="cadence needs what"),
        apply_edits(make_cadence("logging", 0)),
    ):
        pass
