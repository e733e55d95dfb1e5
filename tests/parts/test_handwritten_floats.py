"""Floats that a data set's own code makes of bytes are made later, to the bit the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from gapless.parts import handwritten_floats
from gapless.parts.handwritten_floats import defer_arithmetic, send_handwritten_uint8
from gapless.parts.uint8_pictures import Uint8Picture, make_floats, table_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

MEAN = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


def pixels(channels: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(channels)
    return torch.randint(0, 256, (channels, 12, 9), dtype=torch.uint8, generator=generator)


@pytest.fixture
def _later() -> Generator[None]:
    revert = defer_arithmetic()
    defer_arithmetic()()
    yield
    revert()
    assert table_rules == {}
    assert type(pixels().float()) is torch.Tensor


WAYS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "float, divided": lambda x: x.float() / 255,
    "to float": lambda x: x.to(torch.float32).div(255.0),
    "to a type": lambda x: x.to(dtype=torch.float32) / 255,
    "divided": lambda x: x / 255,
    "div": lambda x: x.div(255),
    "normalised": lambda x: (x.float() / 255 - MEAN) / STD,
    "multiplied": lambda x: x.float().mul(1 / 127.5) - 1,
    "in place": lambda x: x.float().div_(255).sub_(MEAN).div_(STD),
    "with a factor": lambda x: torch.add(x.float(), 3, alpha=2),
    "flipped": lambda x: (x.float() / 255).flip(2).flip(-2),
    "mean of a float": lambda x: (x.float() - torch.tensor(127.5)) / 128,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("_later")
def test_floats_are_the_same_to_the_bit_and_bytes_until_then(way: str) -> None:
    picture: Any = WAYS[way](pixels())
    assert type(picture) is Uint8Picture
    assert picture.pixels.dtype == torch.uint8
    floats = make_floats(picture.pixels, picture.table)
    stacked: Any = torch.stack([picture, WAYS[way](pixels())])
    assert type(stacked) is Uint8Picture
    assert stacked.to("meta").shape == (2, 3, 12, 9)
    with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        expected = WAYS[way](pixels().clone().to(torch.float64).to(torch.float32))
    assert torch.equal(floats, expected)
    assert torch.equal(picture + 0, expected)


@pytest.mark.usefixtures("_later")
def test_what_differs_between_pixels_makes_floats() -> None:
    x = pixels()
    mask = torch.rand(3, 12, 9, generator=torch.Generator().manual_seed(0))
    made: Any = x.float()
    expected = x.to(torch.float64).to(torch.float32)
    for picture, same in (
        (made * mask, expected * mask),
        (made + made, expected + expected),
        (made[:, 2:5], expected[:, 2:5]),
        (made.flip(0), expected.flip(0)),
        (made / 255 - 1, expected / 255 - 1),
        (1 - made, 1 - expected),
    ):
        assert torch.equal(picture + 0, same)
    view = made[1:]
    made.sub_(1)
    assert torch.equal(view, expected[1:] - 1)


@pytest.mark.usefixtures("_later")
def test_other_tensors_become_what_they_always_did() -> None:
    for tensor in (pixels().permute(1, 2, 0), pixels()[0], pixels().int(), pixels()[:, :3]):
        assert type(tensor.float()) is torch.Tensor
    assert type(pixels().to(torch.float64)) is torch.Tensor
    assert type(pixels().to(torch.float32, copy=True)) is torch.Tensor
    assert type(pixels().to("cpu")) is torch.Tensor
    assert (pixels() // 2).dtype == torch.uint8


class Pictures(Dataset[Any]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401
        return (pixels().roll(index).float() / 255 - MEAN) / STD, index


def test_a_worker_does_not_ask_for_the_device_of_its_parent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: object) -> bool:
        raise RuntimeError("CUDA error: initialization error")

    monkeypatch.setattr(torch.Tensor, "is_pinned", fail)
    pixels = torch.randint(0, 256, (3, 16, 16), dtype=torch.uint8)
    assert torch.equal(handwritten_floats.make_later(pixels).floats(), pixels.float())


def test_workers_send_bytes() -> None:
    told: list[None] = []
    handwritten_floats.on_first_by_hand.append(lambda: told.append(None))
    expected = next(iter(DataLoader(Pictures(), 4)))[0]
    loader = DataLoader(Pictures(), 4, num_workers=1)
    assert send_handwritten_uint8(send_handwritten_uint8(loader)) is loader
    batch: Any = next(iter(loader))[0]
    assert type(batch) is Uint8Picture
    assert batch.pixels.dtype == torch.uint8
    assert torch.equal(batch + 0, expected)
    assert type(pixels().float()) is torch.Tensor
    handwritten_floats.on_first_by_hand.clear()
    assert told == [], "it was said in the worker"
