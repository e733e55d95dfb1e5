"""Uint8Picture: bytes that are floats to all who ask, and become floats where they are copied to.

The device "meta" stands for one: what is copied there is seen, though not its values, which
``make_floats`` makes on the host in the same way.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, Subset

from gapless.parts import recycle_batches, send_uint8
from gapless.parts.pipelines import count_transforms_to_floats, find_pipelines
from gapless.parts.uint8_pictures import FloatsLater, Uint8Picture, make_floats

if TYPE_CHECKING:
    from collections.abc import Callable

CHANNELS = {"L": 1, "RGB": 3, "RGBA": 4, "1": 1}


class Compose:
    def __init__(self, transforms: list[Any]) -> None:
        self.transforms = transforms

    def __call__(self, picture: Any) -> Any:  # noqa: ANN401
        for transform in self.transforms:
            picture = transform(picture)
        return picture


class ToTensor:
    """As torchvision's does it."""

    def __call__(self, picture: Any) -> torch.Tensor:  # noqa: ANN401
        pixels = torch.from_numpy(np.array(picture, copy=True))
        pixels = pixels.reshape(*pixels.shape[:2], -1).permute(2, 0, 1).contiguous()
        return pixels.to(torch.float32).div(255) if pixels.dtype == torch.uint8 else pixels.float()


class PILToTensor:
    def __call__(self, picture: Any) -> torch.Tensor:  # noqa: ANN401
        assert isinstance(picture, Image.Image)
        return torch.from_numpy(np.array(picture, copy=True)).permute(2, 0, 1).contiguous()


class ConvertImageDtype:
    def __call__(self, picture: torch.Tensor) -> torch.Tensor:
        return picture.to(torch.float32) * (1 / 255)


class Normalize:
    def __init__(self, n_channels: int = 3) -> None:
        self.mean = torch.tensor([0.485, 0.456, 0.406, 0.5][:n_channels]).view(-1, 1, 1)
        self.std = torch.tensor([0.229, 0.224, 0.225, 0.25][:n_channels]).view(-1, 1, 1)

    def __call__(self, picture: torch.Tensor) -> torch.Tensor:
        return picture.sub(self.mean).div_(self.std)


class RandomErasing(ConvertImageDtype):
    pass


for _kind in (Compose, ToTensor, PILToTensor, ConvertImageDtype, Normalize, RandomErasing):
    _kind.__module__ = "torchvision.transforms.transforms"


def mirror(picture: torch.Tensor) -> torch.Tensor:
    return picture.flip(2)


class Pictures(Dataset[Any]):
    def __init__(self, transforms: list[Any], mode: str = "RGB") -> None:
        draw = np.random.default_rng(0)
        sources = [draw.integers(0, 256, (16, 24, 3), dtype=np.uint8) for _ in range(4)]
        self.pictures = [Image.fromarray(source).convert(mode) for source in sources]
        self.transform = Compose(transforms)

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401
        return self.transform(self.pictures[index]), index


def first_batch(dataset: Any, **settings: Any) -> torch.Tensor:  # noqa: ANN401
    batch, _ = next(iter(DataLoader(dataset, 4, **settings)))
    return batch


def deferred(dataset: Any, **settings: Any) -> torch.Tensor:  # noqa: ANN401
    loader = DataLoader(dataset, 4, **settings)
    assert send_uint8(loader) is loader
    batch, _ = next(iter(recycle_batches(loader)))
    return batch


ENDS: list[Callable[[int], list[Any]]] = [
    lambda _: [ToTensor()],
    lambda n: [ToTensor(), Normalize(n)],
    lambda _: [PILToTensor(), ConvertImageDtype(), Normalize(), Normalize()],
    lambda _: [PILToTensor(), mirror, ConvertImageDtype(), Normalize()],
]


@pytest.mark.parametrize(
    ("mode", "end"),
    [("RGB", 0), ("RGB", 1), ("RGB", 2), ("RGB", 3), ("L", 0), ("L", 1), ("RGBA", 1)],
)
def test_the_floats_are_those_of_the_transforms_to_the_bit(mode: str, end: int) -> None:
    make_end = ENDS[end]
    expected = first_batch(Pictures(make_end(CHANNELS[mode]), mode))
    batch: Any = deferred(Pictures(make_end(CHANNELS[mode]), mode))
    assert type(batch) is Uint8Picture
    assert (batch.shape, batch.dtype, batch.device) == (
        expected.shape,
        torch.float32,
        expected.device,
    )
    assert batch.pixels.dtype == torch.uint8
    floats = make_floats(batch.pixels, batch.table)
    assert torch.equal(floats, expected)
    assert floats.stride() == expected.stride() == batch.stride()
    assert torch.equal(batch + 0, expected)


def test_workers_send_bytes_and_a_copy_to_the_device_takes_bytes() -> None:
    expected = first_batch(Pictures(ENDS[1](3)))
    batch: Any = deferred(Pictures(ENDS[1](3)), num_workers=1)
    assert type(batch) is Uint8Picture
    for copied in (batch.to("meta", non_blocking=True), torch.empty_like(expected, device="meta")):
        copied.copy_(batch)
        assert (type(copied), copied.shape, copied.dtype) == (
            torch.Tensor,
            expected.shape,
            torch.float32,
        )
        assert copied.stride() == expected.stride()
    half = batch.to("meta", torch.bfloat16, memory_format=torch.channels_last)
    assert half.dtype == torch.bfloat16
    assert half.is_contiguous(memory_format=torch.channels_last)
    assert batch.pixels is not None, "no floats were made on the host"
    assert torch.equal(torch.stack([batch, batch])[0], expected)


def test_whoever_computes_on_the_host_gets_the_floats() -> None:
    expected = first_batch(Pictures(ENDS[1](3)))
    batch: Any = deferred(Pictures(ENDS[1](3)))
    np.testing.assert_array_equal(batch.numpy(), expected.numpy())
    view = batch[1:]
    batch.sub_(1)  # in place: seen by views, and by copies from then on
    assert torch.equal(view, expected[1:] - 1)
    assert torch.equal(torch.from_dlpack(batch), expected - 1)
    assert torch.equal(copy.deepcopy(batch), expected - 1)
    assert batch.tolist() == (expected - 1).tolist()
    assert repr(batch) == repr(expected - 1)
    layer = torch.nn.Conv2d(3, 2, 3)
    layer(batch).sum().backward()
    assert layer.weight.grad is not None
    assert batch.to("meta").shape == expected.shape


def test_other_pictures_go_through_the_transforms_as_ever() -> None:
    black_and_white = Pictures([ToTensor()], "1")
    assert type(deferred(black_and_white)) is torch.Tensor
    assert torch.equal(deferred(black_and_white), first_batch(Pictures([ToTensor()], "1")))
    later = FloatsLater([ToTensor()])
    assert type(later(np.zeros((4, 4, 3), np.uint8)[:, ::-1])) is Uint8Picture
    assert type(later(np.zeros((4, 4, 3), np.float32))) is torch.Tensor
    assert type(FloatsLater([ConvertImageDtype()])(torch.zeros(3, 4, 4))) is torch.Tensor


def test_a_pipeline_is_found_within_subsets_and_must_end_with_floats() -> None:
    dataset = Pictures(ENDS[1](3))
    assert find_pipelines(Subset(Subset(dataset, [0, 1]), [0])) == [dataset.transform]
    assert find_pipelines([1, 2]) == []
    assert count_transforms_to_floats([ToTensor(), Normalize(), RandomErasing()]) == 0
    assert count_transforms_to_floats([ToTensor(), Normalize()]) == 2
    assert count_transforms_to_floats([PILToTensor(), ConvertImageDtype(), Normalize()]) == 3
    assert count_transforms_to_floats([Normalize()]) == 0
    assert count_transforms_to_floats([]) == 0
