"""The edit by which pictures stay bytes until they are on the device."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from PIL import Image
from torch.utils.data import DataLoader, TensorDataset

from gapless.model.edit import Wrap
from gapless.parts import handwritten_floats, jpeg_pixels
from gapless.parts.uint8_pictures import FloatsLater, Uint8Picture, table_rules
from gapless.payload.loading import batch_facts, datasets
from tests.parts.test_handwritten_floats import Pictures as HandPictures
from tests.parts.test_jpeg_files import Folder
from tests.parts.test_uint8_pictures import (
    Compose,
    Normalize,
    Pictures,
    RandomErasing,
    ToTensor,
    first_batch,
)
from tests.payload.laying import apply_edits

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

EDIT = Wrap("torch.utils.data.DataLoader", "uint8-to-device")


def test_the_end_of_the_pipeline_is_replaced_while_the_edit_is_on() -> None:
    dataset, transforms = Pictures([ToTensor(), Normalize()]), [ToTensor, Normalize]
    expected = first_batch(dataset)
    with apply_edits(EDIT) as edit_log:
        batch: Any = first_batch(dataset)
        assert type(batch) is Uint8Picture
        assert torch.equal(batch + 0, expected)
        assert [type(transform) for transform in dataset.transform.transforms] == [FloatsLater]
        assert type(first_batch(dataset, num_workers=1)) is Uint8Picture
        assert edit_log.times() == 1
        assert edit_log.values[0]["old"] == "ToTensor, Normalize"
    assert [type(transform) for transform in dataset.transform.transforms] == transforms
    assert type(first_batch(dataset)) is torch.Tensor


def test_floats_that_the_loop_makes_of_a_batch_are_bytes_until_they_are_copied() -> None:
    pictures = torch.arange(2 * 3 * 8 * 8, dtype=torch.uint8).view(2, 3, 8, 8)
    loader: Any = DataLoader(TensorDataset(pictures), 1)
    with apply_edits(Wrap(EDIT.target, "uint8-in-loop")) as edit_log:
        batches: list[Any] = [batch.float() / 255 for (batch,) in loader]
        assert [type(batch) for batch in batches] == [Uint8Picture, Uint8Picture]
        assert torch.equal(torch.cat(batches), pictures.float() / 255)
        assert edit_log.times() == 2
    assert type(next(iter(loader))[0]) is torch.Tensor
    assert batch_facts.values(next(iter(loader)))["byte_pictures"] is True
    handwritten_floats.on_first_by_hand.clear()
    table_rules.clear()


def test_files_are_decoded_on_the_device_and_the_difference_is_told(tmp_path: Path) -> None:
    dataset = Folder(tmp_path)
    with apply_edits(Wrap(EDIT.target, "decode-on-device")) as edit_log:
        batch: Any = first_batch(dataset, num_workers=1)
        assert isinstance(batch.pixels, jpeg_pixels.JpegPixels)
        assert edit_log.times() == 0, "nothing is decoded yet"
        (report,) = jpeg_pixels.on_first_batch
        report(7, 0.5)
        assert edit_log.times() == 1
    assert jpeg_pixels.on_first_batch == []
    assert type(first_batch(dataset, num_workers=1)) is torch.Tensor


def test_files_are_decoded_at_a_fraction_in_workers_alone(tmp_path: Path) -> None:
    torch.manual_seed(0)
    expected = first_batch(Folder(tmp_path), num_workers=1)
    with apply_edits(Wrap(EDIT.target, "reduced-decoding")):
        torch.manual_seed(0)
        assert torch.equal(first_batch(Folder(tmp_path), num_workers=1), expected), "none is halved"
        assert not hasattr(Image.open, "is_later")


def test_a_pipeline_that_goes_on_with_floats_is_left_alone() -> None:
    dataset = Pictures([ToTensor(), Normalize(), RandomErasing()])
    with apply_edits(EDIT) as edit_log:
        assert type(first_batch(dataset)) is torch.Tensor
        assert edit_log.times() == 0


def test_facts_of_a_loader_name_its_transforms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision.transforms", ModuleType("transforms"))
    values = datasets.values(DataLoader(Pictures([Compose([]), ToTensor(), Normalize()])))
    assert values["pipeline"] == ["Compose", "ToTensor", "Normalize"]
    assert values["to_floats"] == 2
    assert "pipeline" not in datasets.values(DataLoader([1, 2]))  # type: ignore[arg-type]


class ResizedPictures(Pictures):
    """Pictures that code of the user's makes smaller."""

    def __getitem__(self, index: int) -> tuple[Any, int]:
        picture, number = super().__getitem__(index)
        return picture.resize((4, 4)), number


def test_what_a_data_set_divides_by_hand_stays_bytes_in_workers() -> None:
    loader = DataLoader(HandPictures(), 4, num_workers=1)
    assert datasets.values(loader)["by_hand"] is True
    assert datasets.values(DataLoader(Pictures([])))["by_hand"] is False
    assert datasets.values(loader)["resizes"] is False
    assert datasets.values(DataLoader(ResizedPictures([])))["resizes"] is True
    with apply_edits(Wrap(EDIT.target, "uint8-by-hand")):
        batch: Any = next(iter(loader))[0]
        assert type(batch) is Uint8Picture
    assert type(next(iter(loader))[0]) is torch.Tensor
