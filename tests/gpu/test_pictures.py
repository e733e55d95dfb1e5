"""Pictures that become floats on the GPU, and files that it decodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.utils.data import DataLoader

from gapless.parts import jpeg_pixels, recycle_batches, send_uint8
from gapless.parts.jpeg_files import decode_on_device
from tests.parts.test_jpeg_files import Folder

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.gpu


def first_batch(loader: DataLoader[Any]) -> torch.Tensor:
    torch.manual_seed(3)
    (pictures, _), *_ = list(loader)
    return pictures.to("cuda", non_blocking=True)


def loader(folder: Path, **settings: Any) -> DataLoader[Any]:  # noqa: ANN401
    return DataLoader(Folder(folder), 4, num_workers=1, **settings)


@pytest.mark.parametrize("pins", [False, True])
def test_the_floats_are_those_of_the_host_to_the_bit(tmp_path: Path, *, pins: bool) -> None:
    expected = first_batch(loader(tmp_path))
    sent = first_batch(recycle_batches(send_uint8(loader(tmp_path, pin_memory=pins))))
    assert type(sent) is torch.Tensor
    assert torch.equal(sent, expected)


@pytest.mark.parametrize("pins", [False, True])
def test_files_are_decoded_nearly_as_pillow_does_it(tmp_path: Path, *, pins: bool) -> None:
    pytest.importorskip("torchvision")
    expected = first_batch(loader(tmp_path))
    reports: list[int] = []
    jpeg_pixels.on_first_batch.append(lambda most, _: reports.append(most))
    sent = first_batch(recycle_batches(decode_on_device(loader(tmp_path, pin_memory=pins))))
    assert len(reports) == 1, "nvJPEG decoded it"
    assert (sent - expected).abs().mean() * 0.225 * 255 < 3  # of 255 levels
