"""Edits of copies, seen on a device: they take effect, and come off again."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from gapless.model.edit import Wrap
from tests.payload.laying import apply_edits

pytestmark = pytest.mark.gpu
LOADER = "torch.utils.data.DataLoader"


class Numbers(Dataset[Any]):
    """Samples of some size, so that their copies take time."""

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401
        return torch.full((1 << 16,), float(index)), index


def train(loader: DataLoader[Any]) -> tuple[list[float], list[bool]]:
    """Train; give what each batch began with, and whether it came on the device."""
    weight = torch.ones(1, device="cuda", requires_grad=True)
    optimizer = torch.optim.SGD([weight], 0.0)
    firsts: list[torch.Tensor] = []
    on_device: list[bool] = []
    for x, _ in loader:
        on_device.append(x.is_cuda)
        batch = x.to("cuda", non_blocking=True)
        firsts.append(batch[0, 0].detach().clone())
        (batch.mean() * weight).sum().backward()
        optimizer.step()
    return [first_value.item() for first_value in firsts], on_device


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_copied_ahead(workers: int) -> None:
    loader = DataLoader(Numbers(), 4, num_workers=workers, pin_memory=True)
    expected = [float(index) for index in range(0, 32, 4)]
    with apply_edits(Wrap(LOADER, "device-prefetcher")) as counters:
        assert train(loader) == (expected, [False] + [True] * 7)
        assert train(loader) == (expected, [True] * 8)
        assert counters.times() == 15
        assert not counters.unobserved
    assert train(loader) == (expected, [False] * 8)


def test_the_first_batch_stays_on_the_device() -> None:
    loader = DataLoader(Numbers(), 4, num_workers=2, pin_memory=True)
    with apply_edits(Wrap(LOADER, "cached-batch", {"device": True})) as counters:
        assert train(loader) == ([0.0] * 8, [False] + [True] * 7)
        assert train(loader) == ([0.0] * 8, [True] * 8)
        assert counters.times() == 15
    assert train(loader)[0] == [float(index) for index in range(0, 32, 4)]


def test_the_first_batch_stays_pinned_where_it_is() -> None:
    with apply_edits(Wrap(LOADER, "cached-batch", {"device": False})):
        pinned = []
        weight = torch.ones(1, device="cuda", requires_grad=True)
        for x, _ in DataLoader(Numbers(), 4, num_workers=1, pin_memory=True):
            pinned.append(x.is_pinned())
            (x.to("cuda").mean() * weight).sum().backward()
        assert pinned == [True] * 8


def returns_early(source: torch.Tensor) -> bool:
    """Return whether the CPU goes on while the device has yet to come to the copy."""
    torch.cuda.synchronize()
    torch.cuda._sleep(1_000_000_000)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - cycles
    copied = source.to("cuda")
    early = not torch.cuda.current_stream().query()
    assert torch.equal(copied.cpu(), source)
    return early


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch's compiler imports it
def test_copies_of_pinned_tensors_do_not_block() -> None:
    pinned, pageable = torch.rand(1 << 20).pin_memory(), torch.rand(1 << 20)
    assert not returns_early(pinned)
    with apply_edits(Wrap("torch.Tensor.to", "non-blocking")) as counters:
        assert returns_early(pinned)
        assert counters.times() == 1
        assert not returns_early(pageable)
        assert counters.unobserved == ["non-blocking copy: the source is not pinned"]
        assert pinned.cuda().is_cuda
        assert counters.times() == 2

        def move(x: torch.Tensor) -> torch.Tensor:
            return x.to("cuda") * 2

        torch.compiler.reset()
        compiled: Any = torch.compile(move, backend="aot_eager", fullgraph=True)
        assert torch.equal(compiled(pinned).cpu(), pinned * 2)
    torch.compiler.reset()
    assert not returns_early(pinned)
