"""Samples that are kept: the same ones, in the same order, made once; and when none are."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset

from gapless.parts.caches import sample_cache
from gapless.parts.caches.memory_store import NOT_SHARED
from gapless.parts.caches.sample_cache import cache_samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

COUNT = 12


class Samples(Dataset[Any]):
    """Samples whose making is counted, also in workers."""

    def __init__(self, draw: Callable[[], float] = lambda: 0.0) -> None:
        self.draw, self.offset = draw, 0
        self.made = torch.zeros(COUNT, dtype=torch.int64).share_memory_()

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401
        self.made[index] += 1
        return torch.full((3,), float(index + self.offset)) + self.draw(), f"name {index}", index


class Batched(Samples):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


def epochs(loader: DataLoader[Any], count: int = 2) -> list[list[Any]]:
    torch.manual_seed(0)
    return [list(loader) for _ in range(count)]


def flat(batches: list[list[Any]]) -> list[Any]:
    return [
        (numbers.tolist(), names, indices.tolist())
        for epoch in batches
        for numbers, names, indices in epoch
    ]


@pytest.fixture(autouse=True)
def _no_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_cache, "_FIRST_CHECKS", 0)
    monkeypatch.setattr(sample_cache, "_CHECK_EVERY", 1 << 30)


@pytest.mark.parametrize(("kind", "workers"), [(Samples, 0), (Samples, 2), (Batched, 0)])
def test_samples_are_made_once_and_are_the_same(kind: type[Samples], workers: int) -> None:
    expected = epochs(DataLoader(kind(), 4, shuffle=True, num_workers=workers))
    dataset = kind()
    loader = DataLoader(dataset, 4, shuffle=True, num_workers=workers)
    assert cache_samples(cache_samples(loader)) is loader
    assert flat(epochs(loader)) == flat(expected)
    assert dataset.made.tolist() == [1] * COUNT


def test_what_is_given_may_be_changed() -> None:
    loader = cache_samples(DataLoader(Samples(), 4, collate_fn=list))
    for _ in range(3):
        for batch in loader:
            for numbers, _, index in batch:
                assert numbers.tolist() == [index] * 3
                numbers.add_(1)


def test_parts_of_a_data_set_have_numbers_of_their_own() -> None:
    dataset: Any = Samples()
    loader: Any = cache_samples(DataLoader(Subset(dataset, [5, 3]), 2))
    assert [batch[2].tolist() for _ in range(2) for batch in loader] == [[5, 3]] * 2
    assert int(dataset.made.sum()) == 2
    assert [batch[2].tolist() for batch in DataLoader(dataset, COUNT)] == [list(range(COUNT))]


def test_later_runs_find_them_in_a_folder(tmp_path: Path) -> None:
    for made in (1, 0):
        dataset = Samples()
        loader: Any = cache_samples(DataLoader(dataset, 4, num_workers=1), str(tmp_path))
        assert flat(epochs(loader, 1)) == flat(epochs(DataLoader(Samples(), 4), 1))
        assert dataset.made.tolist() == [made] * COUNT


@pytest.mark.parametrize(
    "draw",
    [random.random, np.random.rand, lambda: float(torch.rand(()))],
    ids=["python", "numpy", "torch"],
)
def test_random_samples_are_drawn_as_ever(
    draw: Callable[[], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_cache, "_MAX_RANDOM", 5)
    reasons: list[str] = []

    def draw_all(*, cached: bool) -> list[Any]:
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002 - what the user's code draws from
        loader = DataLoader(Samples(draw), 4)
        if cached:
            vars(cache_samples(loader).dataset)["__getitems__"].on_refused = reasons.append
        return flat(epochs(loader))

    assert draw_all(cached=True) == draw_all(cached=False)
    assert reasons == ["making samples draws random numbers: each is another every time"]


def test_a_sample_that_became_another_one_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_cache, "_FIRST_CHECKS", 4)
    dataset, reasons = Samples(), list[str]()
    loader = cache_samples(DataLoader(dataset, 4))
    vars(dataset)["__getitems__"].on_refused = reasons.append
    first = flat(epochs(loader, 1))
    dataset.offset = 1
    second = flat(epochs(loader, 1))
    assert reasons == ["sample 0 is another than it was"]
    assert [numbers[0][0] for numbers, *_ in first + second] == [0, 4, 8, 1, 5, 9]


def test_kinds_that_cannot_be_kept_are_given_as_they_are() -> None:
    class Sets(Samples):
        def __getitem__(self, index: int) -> Any:  # noqa: ANN401
            return {index}

    loader = cache_samples(DataLoader(Sets(), 4, collate_fn=list))
    assert epochs(loader)[1][0] == [{0}, {1}, {2}, {3}]


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter([1, 2])


@pytest.mark.parametrize(
    ("loader", "why"),
    [
        (DataLoader(Stream()), "its samples have no numbers by which they are asked for"),
        (DataLoader(Samples(), None), "its samples have no numbers by which they are asked for"),
        (DataLoader([1, 2]), "list holds its samples already"),  # type: ignore[arg-type]
        (DataLoader(Samples(), num_workers=1, multiprocessing_context="spawn"), NOT_SHARED),
    ],
)
def test_loaders_without_such_samples_are_refused(loader: DataLoader[Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        cache_samples(loader)
