"""Batches of bytes become floats on the device, to the bit the same, whatever the loop asks."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from gapless.parts.batching.byte_batches import ByteBatch, ByteBatches, defer_batch
from gapless.parts.uint8_pictures import Uint8Picture, table_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)


@pytest.fixture(autouse=True)
def _no_rules_left() -> Generator[None]:
    yield
    table_rules.clear()


def pixels(*size: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, size or (2, 3, 12, 9), dtype=torch.uint8, generator=generator)


LOOPS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "float, divided": lambda x: x.float() / 255,
    "to a type": lambda x: x.to(dtype=torch.float32).div(255.0),
    "divided": lambda x: x / 255,
    "div": lambda x: x.div(255),
    "normalised": lambda x: (x.float() / 255 - MEAN) / MEAN.view(3, 1, 1),
    "in place": lambda x: x.float().div_(255).sub_(0.5).mul_(2),
    "flipped": lambda x: (x.float() / 255).flip(-1),
}


@pytest.mark.parametrize("loop", LOOPS)
def test_what_a_loop_makes_of_a_batch_is_bytes_until_it_is_asked(loop: str) -> None:
    batch: Any = LOOPS[loop](defer_batch(pixels()))
    assert type(batch) is Uint8Picture
    assert batch.pixels.shape == (2, 12, 9, 3)
    assert batch.to("meta").shape == (2, 3, 12, 9)
    assert torch.equal(batch + 0, LOOPS[loop](pixels()))


def test_whatever_else_is_asked_gives_tensors_of_bytes() -> None:
    batch: Any = defer_batch(pixels())
    for result in (batch + 1, batch[0], batch.to("meta"), batch.permute(0, 2, 3, 1), batch.clone()):
        assert type(result) is torch.Tensor
        assert result.dtype == torch.uint8
    assert type(pickle.loads(pickle.dumps(batch))) is torch.Tensor  # noqa: S301
    assert type(copy.deepcopy(batch)) is torch.Tensor
    assert batch.to("meta", torch.float16).dtype == torch.float16
    assert type(batch.to(torch.float64)) is torch.Tensor
    assert torch.equal(batch * MEAN, pixels() * MEAN)
    assert str(batch) == str(pixels())
    later = batch.float()
    batch.zero_()
    assert torch.equal(later + 0, pixels().float()), "bytes that change afterwards are not its own"


def test_other_tensors_of_a_batch_stay_what_they_are() -> None:
    tensors = [
        pixels(2, 12, 9, 3),
        pixels(2, 3, 4, 4),
        pixels()[0],
        pixels().int(),
        pixels()[:, :2],
    ]
    assert all(new is old for new, old in zip(defer_batch(tensors), tensors, strict=True))


def test_a_loader_s_batches_come_by_way_of_it() -> None:
    plain: Any = DataLoader(TensorDataset(pixels(), torch.arange(2)), 2)
    loader: Any = ByteBatches(plain)
    ((batch, labels),) = loader
    assert (type(batch), type(labels)) == (ByteBatch, torch.Tensor)
    assert len(loader) == 1
    assert pickle.loads(pickle.dumps(loader)).batch_size == loader.batch_size == 2  # noqa: S301
