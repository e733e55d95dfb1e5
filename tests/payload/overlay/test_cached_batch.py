"""The first batch again and again: only where it trains, as it was, and until it is taken off."""

from __future__ import annotations

import multiprocessing
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, SequentialSampler

from gapless import wire
from gapless.model.edit import Location, Wrap, edit_to_json
from tests.payload.laying import apply_edits
from tests.payload.loading import run_script

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOADER = "torch.utils.data.DataLoader"
CACHED = Wrap(LOADER, "cached-batch", {"device": False})
ON_DEVICE = Wrap(LOADER, "cached-batch", {"device": True})


class Numbers(Dataset[Any]):
    """Samples that are counted as they are made."""

    def __init__(self, size: int = 8) -> None:
        self.size, self.n_made = size, 0

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401
        self.n_made += 1
        return torch.full((2,), float(index))


class Pair(NamedTuple):
    """A part of a batch."""

    x: torch.Tensor
    y: str


class Endless(IterableDataset[Any]):
    """A stream that has no length."""

    def __iter__(self) -> Iterator[Any]:
        yield from (torch.full((2,), float(index)) for index in range(8))


def train(loader: DataLoader[Any], epochs: int = 1, max_batches: int = 100) -> list[list[float]]:
    """Train, and give what each batch began with."""
    weight = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], 0.1)
    first_values: list[list[float]] = []
    for _ in range(epochs):
        for batch in loader:
            first_values.append(batch[:, 0].tolist())
            (batch @ weight).sum().backward()
            optimizer.step()
            if len(first_values) == max_batches:
                return first_values
    return first_values


def evaluate(loader: DataLoader[Any]) -> list[list[float]]:
    return [batch[:, 0].tolist() for batch in loader]


PLAIN = [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]]
SETTINGS: list[dict[str, Any]] = [
    {},
    {"num_workers": 2},
    {"num_workers": 2, "persistent_workers": True},
]


@pytest.mark.parametrize("edit", [CACHED, ON_DEVICE])
@pytest.mark.parametrize("settings", SETTINGS)
def test_the_first_batch_comes_as_often_as_there_were_batches(
    settings: dict[str, Any], edit: Wrap
) -> None:
    before = dict(vars(DataLoader))
    with apply_edits(edit) as edit_log:
        loader = DataLoader(Numbers(), 2, **settings)
        assert train(loader, epochs=3) == [[0.0, 1.0]] * 12
        assert edit_log.times() == 11
        assert not edit_log.unobserved
        assert multiprocessing.active_children() == []
    assert dict(vars(DataLoader)) == before
    assert train(loader, epochs=2) == PLAIN * 2
    assert train(DataLoader(Numbers(), 2, **settings)) == PLAIN


def collate_once(batch: Any) -> Any:  # noqa: ANN401
    return iter(batch)


def collate_locked(batch: Any) -> Locked:  # noqa: ANN401
    assert batch
    return Locked()


@pytest.mark.parametrize(
    ("collate", "why"), [(collate_once, "an iterator"), (collate_locked, "cannot pickle")]
)
def test_what_cannot_be_kept_is_loaded_as_ever_and_told(collate: Any, why: str) -> None:  # noqa: ANN401
    with apply_edits(CACHED) as edit_log:
        data = Numbers()
        weight = torch.zeros(2, requires_grad=True)
        for _ in DataLoader(data, 2, collate_fn=collate):
            weight.sum().backward()
        assert data.n_made == 8
        assert edit_log.times() == 0
        assert len(edit_log.unobserved) == 1
        assert edit_log.unobserved[0].startswith(
            f"edit 0: {LOADER}: cached batch: it cannot be kept"
        )
        assert why in edit_log.unobserved[0]


class Locked:
    """A batch of its own kind that cannot be copied."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def to(self, device: object) -> Locked:
        assert device is not None
        return self


def test_no_sample_is_made_after_the_first_batch() -> None:
    with apply_edits(CACHED):
        data = Numbers()
        train(DataLoader(data, 2), epochs=2)
        assert data.n_made == 2


def test_workers_end_after_the_first_batch() -> None:
    with apply_edits(CACHED):
        children: list[int] = []
        weight = torch.zeros(2, requires_grad=True)
        for batch in DataLoader(Numbers(), 2, num_workers=2):
            children.append(len(multiprocessing.active_children()))
            (batch @ weight).sum().backward()
        assert children == [2, 0, 0, 0]


def test_a_loader_that_does_not_train_gives_all_its_batches() -> None:
    with apply_edits(CACHED) as edit_log:
        untrained_loader = DataLoader(Numbers(), 2)
        weight = torch.zeros(2, requires_grad=True)
        for batch in DataLoader(Numbers(), 2):
            (batch @ weight).sum().backward()
            assert evaluate(untrained_loader) == PLAIN
        assert edit_log.times() == 3


def test_only_loaders_of_that_line_are_meant() -> None:
    def make() -> DataLoader[Any]:
        return DataLoader(Numbers(), 2)

    edit = Wrap(LOADER, "cached-batch", {}, Location(__file__, make.__code__.co_firstlineno + 1))
    with apply_edits(edit):
        assert train(make()) == [[0.0, 1.0]] * 4
        assert train(DataLoader(Numbers(), 2)) == PLAIN


def test_a_stream_without_a_length_does_not_end() -> None:
    with apply_edits(CACHED):
        assert train(DataLoader(Endless(), 2), max_batches=20) == [[0.0, 1.0]] * 20


class Shy(SequentialSampler):
    """A sampler that no training asks for its length, and that has none to tell."""

    def __len__(self) -> int:
        raise RuntimeError("not known before it was drawn")


def test_a_length_that_cannot_be_asked_for_does_not_end_the_training() -> None:
    data = Numbers()
    assert train(DataLoader(data, 2, sampler=Shy(data))) == PLAIN
    with apply_edits(CACHED):
        assert train(DataLoader(data, 2, sampler=Shy(data)), max_batches=20) == [[0.0, 1.0]] * 20


def test_what_the_training_does_to_a_batch_is_not_there_in_the_next_one() -> None:
    def collate(samples: list[Any]) -> dict[str, Any]:
        x = torch.stack(samples)
        return {"x": x, "all": [x + 1, Pair(x + 2, "text")]}

    weight = torch.zeros(2, requires_grad=True)
    with apply_edits(CACHED):
        for batch in DataLoader(Numbers(), 2, collate_fn=collate):
            pair = batch["all"].pop()
            assert type(pair) is Pair
            assert pair.y == "text"
            assert batch["x"].tolist() == [[0, 0], [1, 1]]
            assert pair.x.tolist() == [[2, 2], [3, 3]]
            batch["x"].mul_(3).add_(1)
            batch["all"][0].zero_()
            (batch.pop("x") @ weight).sum().backward()


def test_an_iteration_under_way_ends_as_it_began() -> None:
    weight = torch.zeros(2, requires_grad=True)
    loader = DataLoader(Numbers(), 2, num_workers=1)
    with apply_edits(CACHED):
        loader = DataLoader(Numbers(), 2, num_workers=1)
        batches = iter(loader)
        for _ in range(2):
            (next(batches) @ weight).sum().backward()
    assert [batch[:, 0].tolist() for batch in batches] == [[0.0, 1.0]] * 2
    assert train(loader) == PLAIN


SCRIPT = """
def collate(samples):
    return torch.stack(samples).float()

if __name__ == "__main__":
    loader = DataLoader(Numbers(), 2, num_workers=1, collate_fn=collate)
    weight = torch.zeros(4, requires_grad=True)
    optimizer = torch.optim.SGD([weight], 0.1)
    for epoch in range(2):
        for batch in loader:
            print(batch[:, 0].tolist())
            (batch @ weight).sum().backward()
            optimizer.step()
"""


def test_it_is_recorded_as_batches_ever_were(tmp_path: Path) -> None:
    recorded = run_script(tmp_path, SCRIPT, edits=[edit_to_json(CACHED)])
    assert recorded.out.splitlines() == ["[0.0, 1.0]"] * 8
    marks = [
        mark
        for frame in recorded.frames
        if frame.kind == wire.MARKS
        for mark in wire.MARK.iter_unpack(frame.body)
    ]
    next_marks = [mark for mark in marks if mark[0] == wire.NEXT]
    assert [mark[6] for mark in next_marks if not mark[1]] == [0, 1, 2, 3] * 2
    assert sum(mark[1] & wire.EXHAUSTED for mark in next_marks) == 2
    assert {mark[2] for mark in next_marks} == {0}
    assert len([mark for mark in marks if mark[0] == wire.ITER]) == 2
    edits = [fact for fact in recorded.texts(wire.FACT) if fact["noun"] == "edit"]
    assert edits[0]["values"]["times"] == 0
    assert edits[-1]["values"]["new"] == "the first batch"
    assert max(fact["values"]["times"] for fact in edits) >= 4
    assert not [note for note in recorded.texts(wire.UNOBSERVED) if "edit" in note["what"]]
    assert 2 <= sum(row.value_of("samples") for row in recorded.rows) <= 8
