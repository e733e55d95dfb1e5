"""The edit by which workers hand batches over in recycled memory."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from gapless.model.edit import Location, Wrap
from tests.payload.laying import apply_edits

LOADER = "torch.utils.data.DataLoader"
EDIT = Wrap(LOADER, "recycled-collate")


def loader(**settings: Any) -> DataLoader[Any]:  # noqa: ANN401
    return DataLoader(TensorDataset(torch.arange(6.0)), 2, **settings)


def values(batches: DataLoader[Any]) -> list[Any]:
    return [(x.tolist(), x.is_shared()) for (x,) in batches]


def test_batches_of_workers_are_recycled_and_the_loader_stays_what_it_is() -> None:
    with apply_edits(EDIT) as edit_log:
        batches: Any = loader(num_workers=1)
        collate_fn = batches.collate_fn
        assert values(batches) == [([0, 1], False), ([2, 3], False), ([4, 5], False)]
        assert batches.collate_fn is collate_fn
        assert edit_log.times() == 1
        assert values(loader()) == [([0, 1], False), ([2, 3], False), ([4, 5], False)]
        assert edit_log.times() == 1, "a loader without workers is left alone"
    assert values(batches) == [([0, 1], True), ([2, 3], True), ([4, 5], True)]


def test_only_the_loader_of_the_line_is_meant() -> None:
    with apply_edits(Wrap(LOADER, "recycled-collate", {}, Location(__file__, 1))) as edit_log:
        assert [shared for _, shared in values(loader(num_workers=1))] == [True] * 3
        assert edit_log.times() == 0
