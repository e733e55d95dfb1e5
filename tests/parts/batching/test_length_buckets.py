"""Batches of similar lengths: the same samples, as many batches, less padding."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset

from gapless.parts.batching.length_buckets import LengthBatches, bucket_by_length, find_lengths

COUNT = 203


class Texts(Dataset[Any]):
    def __init__(self, count: int = COUNT) -> None:
        generator = torch.Generator().manual_seed(1)
        sizes = [int(size) for size in torch.randint(1, 90, (count,), generator=generator)]
        self.name = "texts"
        self.labels = list(range(count))
        self.texts = ["a " * size for size in sizes]

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401
        return len(self.texts[index]) // 2, index


def epoch(loader: DataLoader[Any]) -> list[list[tuple[int, int]]]:
    return [list(zip(*(part.tolist() for part in batch), strict=True)) for batch in loader]


def padding(batches: list[list[tuple[int, int]]]) -> float:
    rows = sum(max(length for length, _ in batch) * len(batch) for batch in batches)
    return 1 - sum(length for batch in batches for length, _ in batch) / rows


@pytest.mark.parametrize(("drop_last", "workers"), [(False, 0), (True, 0), (False, 1)])
def test_each_sample_is_there_once_and_little_is_padding(drop_last: bool, workers: int) -> None:
    settings: Any = {"shuffle": True, "drop_last": drop_last, "num_workers": workers}
    torch.manual_seed(0)
    plain = epoch(DataLoader(Texts(), 8, **settings))
    torch.manual_seed(0)
    loader = bucket_by_length(bucket_by_length(DataLoader(Texts(), 8, **settings)), pool=10)
    batches = epoch(loader)
    assert sorted(chain(*batches)) == sorted(chain(*plain))
    assert [len(batch) for batch in batches] == [len(batch) for batch in plain]
    assert len(loader) == len(plain)
    assert padding(batches) < 0.2
    assert padding(plain) > 0.4
    lengths = [batch[0][0] for batch in batches[:10]]
    assert lengths != sorted(lengths), "batches are mixed"
    assert epoch(loader) != batches, "another epoch"
    assert loader.batch_sampler.batch_size == 8


def test_a_seed_gives_the_same_batches_again() -> None:
    results: list[Any] = []
    for _ in range(2):
        torch.manual_seed(3)
        results.append(epoch(bucket_by_length(DataLoader(Texts(), 8, shuffle=True))))
        results[-1].append(float(torch.rand(())))
    torch.manual_seed(3)
    epoch(DataLoader(Texts(), 8, shuffle=True))
    assert results[0] == results[1]
    assert results[0][-1] == float(torch.rand(())), "the training draws what it drew"


def test_lengths_are_those_of_texts_lists_and_rows_also_within_subsets() -> None:
    dataset: Any = Texts(4)
    sizes = [len(text) for text in dataset.texts]
    assert find_lengths(dataset) == sizes
    assert find_lengths(Subset(Subset(dataset, [3, 2, 1]), [2, 0])) == [sizes[1], sizes[3]]
    dataset.texts = [torch.ones(size) for size in sizes]
    assert find_lengths(dataset) == sizes
    for texts in (
        ["so same"] * 4,
        ["a.txt", "bb.txt", "c.txt", "d.txt"],
        [torch.ones(2, size) for size in sizes],
        [1, 2, 3, 4],
    ):
        dataset.texts = texts
        assert find_lengths(dataset) is None
    assert find_lengths([1, 2]) is None


def test_loaders_without_lengths_or_with_batches_of_their_own_are_refused() -> None:
    with pytest.raises(ValueError, match="list has no texts or lists"):
        bucket_by_length(DataLoader([1, 2]))  # type: ignore[arg-type]
    own = DataLoader(Texts(), batch_sampler=[[0, 1]])
    with pytest.raises(ValueError, match="a sampler of its own"):
        bucket_by_length(own)
    given = bucket_by_length(DataLoader([0, 1, 2, 3], 2), lengths=[4, 1, 3, 1])  # type: ignore[arg-type]
    assert isinstance(given.batch_sampler, LengthBatches)
    assert sorted(sorted(batch.tolist()) for batch in given) == [[0, 2], [1, 3]]
