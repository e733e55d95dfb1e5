"""RecycledCollate: batches as ever, in memory that is used again only when nobody has them."""

from __future__ import annotations

import gc
import itertools
import os
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from gapless.parts import RecycledCollate, recycle_batches, recycled_memory

LENGTH = 24


class Rows(Dataset[Any]):
    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401
        return torch.full((8000,), float(index)), index


class Padding:
    """A collate function of a user's: containers, views, what is no plain tensor."""

    pad_value = 7

    def __call__(self, rows: list[Any]) -> dict[str, Any]:
        first, last = rows[0][1], rows[-1][1]
        x = torch.arange(float((5 + first * 4000) * len(rows))).reshape(len(rows), -1)
        return {
            "x": x,
            "view": x[:, 1:],
            "again": [x, {"number": first, "text": str(last)}],
            "array": np.full((300, 200), last, np.int16),
            "small": np.arange(3),
            "sparse": torch.eye(3).to_sparse(),
            "last": torch.rand(1, 2, 6, 5).to(memory_format=torch.channels_last),
            "empty": torch.empty(0, 3),
            "half": torch.ones(3, dtype=torch.bfloat16),
            "parameter": torch.nn.Parameter(torch.ones(2)),
        }


class Remembering:
    """A collate function that gives the batch before along with each."""

    def __init__(self) -> None:
        self.before: Any = None

    def __call__(self, rows: list[Any]) -> Any:  # noqa: ANN401
        before, self.before = self.before, RecycledCollate()(rows)[0]
        return self.before, before


def recycled(collate_fn: Any = None, **settings: Any) -> DataLoader[Any]:  # noqa: ANN401
    loader = DataLoader(Rows(), 4, num_workers=1, collate_fn=collate_fn, **settings)
    assert recycle_batches(recycle_batches(loader)) is loader
    return loader


def memory_of(loader: DataLoader[Any]) -> dict[int, Any]:
    """Return the pieces that came from the workers of a loader."""
    iterator: Any = loader._iterator  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    (worker,) = iterator._workers  # noqa: SLF001
    (pieces,) = [
        pieces
        for (pid, _), pieces in recycled_memory._opened.items()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        if pid == worker.pid
    ]
    return pieces


def test_batches_come_as_they_do_from_torch_and_their_memory_is_used_again() -> None:
    loader = recycled(persistent_workers=True)
    for _ in range(3):
        values = [(x.clone(), y) for x, y in loader]
        for (x, y), (expected, numbers) in zip(values, DataLoader(Rows(), 4), strict=True):
            assert torch.equal(x, expected)
            assert torch.equal(y, numbers)
            assert (x.dtype, x.stride(), y.dtype) == (expected.dtype, (8000, 1), torch.int64)
    assert len(memory_of(loader)) <= 5  # of 18 batches, whose labels are kept


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # torch's own, of sparse tensors
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_what_a_users_function_makes_comes_in_its_containers(method: str) -> None:
    loader: Any = recycled(Padding(), multiprocessing_context=method)
    assert loader.collate_fn.pad_value == 7
    for batch, rows in zip(loader, DataLoader(Rows(), 4, collate_fn=list), strict=True):
        torch.manual_seed(0)
        expected = Padding()(rows)
        assert batch.keys() == expected.keys()
        for name in ("x", "view", "empty", "half", "parameter"):
            assert torch.equal(batch[name], expected[name])
            assert batch[name].stride() == expected[name].stride()
            assert type(batch[name]) is type(expected[name])
        assert batch["last"].is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(batch["sparse"].to_dense(), torch.eye(3))
        for name in ("array", "small"):
            np.testing.assert_array_equal(batch[name], expected[name])
            assert batch[name].dtype == expected[name].dtype
        batch["array"][:] = 0  # it can be written to, as one that was pickled
        assert batch["again"][0] is batch["x"]
        assert batch["again"][1] == expected["again"][1]
        batch["x"][0, 1] = -1
        assert batch["view"][0, 0] == -1, "views share memory"


def test_batches_that_are_kept_are_never_overwritten() -> None:
    loader = recycled(persistent_workers=True)
    for _ in range(2):
        batches = [(x[:, 5].numpy(), x.view(-1)[::8000]) for x, _ in loader]
        more = [x for x, _ in loader]
        rows = [(array.tolist(), view.tolist()) for array, view in batches]
        assert rows == [([*range(at, at + 4)],) * 2 for at in range(0, LENGTH, 4)]
        assert [x[:, 1].tolist() for x in more] == [row for row, _ in rows]
        del batches, more
    assert len(memory_of(loader)) <= 8, "what was let go of is not kept by the training"


def test_a_worker_that_keeps_a_batch_finds_it_as_it_was() -> None:
    batches = [(x[:, 0].tolist(), before) for x, before in recycled(Remembering())]
    for (x, _), (_, before) in itertools.pairwise(batches):
        assert before[:, 0].tolist() == x


def test_what_a_fork_of_the_training_has_is_not_overwritten() -> None:
    loader = recycled(persistent_workers=True)
    iterator = iter(loader)
    x, _ = next(iterator)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(writer)
        os.read(reader, 1)  # until the training is done with many more
        os._exit(0 if x[:, 0].tolist() == [0, 1, 2, 3] else 1)
    del x
    gc.collect()
    assert len([next(iterator) for _ in range(5)]) == 5
    os.close(reader)
    os.close(writer)
    assert os.waitpid(child, 0)[1] == 0


def test_without_workers_it_is_the_function_itself() -> None:
    loader = recycle_batches(DataLoader(Rows(), 4, collate_fn=Padding()))
    assert next(iter(loader))["x"].shape[0] == 4
    assert torch.equal(RecycledCollate()([(torch.ones(2), 1)])[0], torch.ones(1, 2))
    assert isinstance(pickle.loads(pickle.dumps(loader.collate_fn)), RecycledCollate)  # noqa: S301


class Nested(Dataset[Any]):
    def __init__(self) -> None:
        self.inner = recycle_batches(DataLoader(Rows(), 2))

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401
        return next(iter(self.inner))[1] + index


def test_a_loader_within_a_worker_gives_its_batches_to_the_data_set() -> None:
    (batch,) = recycle_batches(DataLoader(Nested(), 2, num_workers=1))
    assert batch.tolist() == [[0, 1], [1, 2]]
