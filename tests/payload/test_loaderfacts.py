# pyright: reportPrivateUsage=false
from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from gapless.payload.loading import loader_facts

WIDE = 3


class Samples(Dataset[Any]):
    """A data set with all that its length may be told by."""

    def __init__(self) -> None:
        self.paths = ["a", "b", "c", "d"]
        self.n_calls = 0
        self.count = 4

    def __getitem__(self, index: int) -> int:
        return index


class Listed(Samples):
    def __len__(self) -> int:
        return len(self.paths)


class Paired(Samples):
    def __len__(self) -> int:
        return self.count // 2 * len(self.paths[0])


class Counting(Samples):
    def __len__(self) -> int:
        self.n_calls += 1
        return self.count


class Printing(Samples):
    def __len__(self) -> int:
        print("asked")
        return self.count


class Computing(Samples):
    def __len__(self) -> int:
        return self.compute()

    def compute(self) -> int:
        self.n_calls += 1
        return self.count


class Choosing(Samples):
    def __len__(self) -> int:
        return self.count if self.paths else 0


@pytest.mark.parametrize(
    ("data", "length"),
    [(Listed(), 4), (Paired(), 2), (TensorDataset(torch.ones(WIDE, 1)), WIDE), ([1, 2], 2)],
)
def test_a_length_that_lies_there_is_told(data: object, length: int) -> None:
    assert loader_facts.find_length(data) == length


@pytest.mark.parametrize("kind", [Counting, Printing, Computing, Choosing])
def test_a_length_that_takes_code_of_the_users_is_not_asked_for(
    kind: type[Samples], capsys: pytest.CaptureFixture[str]
) -> None:
    data = kind()

    assert loader_facts.find_length(data) is None
    assert data.n_calls == 0
    assert not capsys.readouterr().out


THREE: TensorDataset = TensorDataset(torch.ones(3, 1))


class InOrder(BatchSampler):
    """Batches of a sampler that somebody made himself."""


def test_a_part_of_a_data_set_is_named_with_it() -> None:
    name = loader_facts.name_dataset(Subset(Subset(THREE, [0, 1]), [0]))
    assert name == "Subset of Subset of torch.utils.data.dataset.TensorDataset"


LOADERS: list[tuple[dict[str, Any], bool]] = [
    ({}, False),
    ({"shuffle": True}, True),
    ({"sampler": WeightedRandomSampler([1.0] * WIDE, WIDE)}, True),
    ({"sampler": SubsetRandomSampler([0, 2])}, True),
    ({"sampler": DistributedSampler(THREE, 1, 0)}, True),
    ({"sampler": DistributedSampler(THREE, 1, 0, shuffle=False)}, False),
    ({"batch_sampler": InOrder(RandomSampler([1, 2, 3]), 2, drop_last=False)}, True),
    ({"batch_sampler": InOrder(SequentialSampler([1, 2, 3]), 2, drop_last=False)}, False),
    ({"batch_sampler": [[0, 1], [2]]}, False),
]


@pytest.mark.parametrize(("settings", "shuffles"), LOADERS)
def test_a_loader_shuffles_whoever_draws_the_order(
    settings: dict[str, Any], shuffles: bool
) -> None:
    loader = DataLoader(TensorDataset(torch.ones(WIDE, 1)), **settings)
    assert loader_facts.values(loader)["shuffle"] is shuffles
