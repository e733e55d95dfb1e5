"""DevicePrefetcher on a device: equal to the bit while the consumer's kernels are busy."""

from __future__ import annotations

import dataclasses
import gc
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_sequence
from torch.utils.data import DataLoader, TensorDataset

from gapless.parts import DevicePrefetcher

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.gpu
N_BATCHES = 100_000


class Pair(NamedTuple):
    """A named tuple."""

    x: torch.Tensor
    y: Any


@dataclasses.dataclass
class Sample:
    """A dataclass."""

    x: torch.Tensor
    name: str


class Pinnable:
    """A batch that only pins itself."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    def pin_memory(self) -> Pinnable:
        self.x = self.x.pin_memory()
        return self


class Movable:
    """A batch that only moves itself."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    def to(self, device: torch.device) -> Movable:
        return Movable(self.x.to(device))


def busy() -> torch.Tensor:
    """Keep the device busy for a while."""
    return torch.ones(1024, 1024, device="cuda")


def test_many_small_batches_are_equal_to_the_bit_under_load() -> None:
    """What was copied too late, or overwritten too early, gives another sum."""
    kinds = [torch.randint(0, 1 << 20, (size,)) for size in (1, 64, 1000, 4096)]
    pinned = [tensor.pin_memory() for tensor in kinds]

    def batches() -> Iterator[tuple[torch.Tensor, dict[str, torch.Tensor]]]:
        for index in range(N_BATCHES):
            x = kinds[index % 4] + 0 if index % 3 else pinned[index % 4]
            yield x, {"at": torch.full((8,), index)}

    weight = busy()
    sums = torch.zeros(2, dtype=torch.int64, device="cuda")
    expected = torch.zeros(2, dtype=torch.int64)
    for index, (x, y) in enumerate(DevicePrefetcher(batches(), ahead=2)):
        assert x.is_cuda
        assert y["at"].is_cuda
        if index % 10 == 0:
            weight = (weight @ weight).clamp_(0, 1)  # the batches' kernels wait behind it
        sums[0] += (x * (index % 7)).sum()
        sums[1] += y["at"].sum()
        expected[0] += kinds[index % 4].sum() * (index % 7)
        expected[1] += 8 * index
    assert sums.tolist() == expected.tolist()


def test_each_batch_is_equal_after_it_was_let_go_while_kernels_wait() -> None:
    """Memory of a batch that the consumer let go is not reused before its kernels have run."""
    sources = [torch.full((256 << 10,), float(index)).pin_memory() for index in range(64)]
    results: list[torch.Tensor] = []
    weight = torch.ones(4096, 4096, device="cuda")
    for x in DevicePrefetcher(sources, ahead=1):
        weight = (weight @ weight).clamp_(0, 1)
        results.append(x.mean())
        del x
    assert [mean.item() for mean in results] == [float(index) for index in range(64)]


@pytest.mark.parametrize("pin", [False, True])
def test_nested_batches_arrive_whole(pin: bool) -> None:
    def collate(samples: list[Any]) -> dict[str, Any]:
        x = torch.stack([sample[0] for sample in samples])
        return {
            "pair": Pair(x, [x + 1, "text"]),
            "sample": Sample(x + 2, "name"),
            "pinnable": Pinnable(x + 3),
        }

    loader = DataLoader(
        TensorDataset(torch.arange(64.0)), 4, collate_fn=collate, num_workers=2, pin_memory=pin
    )
    plain = list(DataLoader(TensorDataset(torch.arange(64.0)), 4, collate_fn=collate))
    prefetcher = DevicePrefetcher(loader)
    assert len(prefetcher) == 16
    for batch, expected in zip(prefetcher, plain, strict=True):
        pairs = [
            (batch["pair"].x, expected["pair"].x),
            (batch["pair"].y[0], expected["pair"].y[0]),
            (batch["sample"].x, expected["sample"].x),
            (batch["pinnable"].x, expected["pinnable"].x),
        ]
        assert type(batch["pair"]) is Pair
        assert batch["sample"].name == "name"
        for moved, plain_tensor in pairs:
            assert moved.is_cuda
            assert torch.equal(moved.cpu(), plain_tensor)


def test_objects_that_move_themselves_do() -> None:
    packed = pack_sequence([torch.ones(3), torch.ones(2)])
    sparse = torch.eye(3).to_sparse()
    for batch in DevicePrefetcher([(packed, Movable(torch.ones(4)), sparse)] * 8):
        assert isinstance(batch[0], PackedSequence)
        assert batch[0].data.is_cuda
        assert not batch[0].batch_sizes.is_cuda
        assert batch[1].x.sum().item() == 4
        assert batch[2] is sparse


def test_an_iteration_left_early_gives_its_memory_back() -> None:
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    source = [torch.zeros(1 << 20) for _ in range(8)]
    batch: Any = None
    for index, batch in enumerate(DevicePrefetcher(source, ahead=3)):  # noqa: B007 - looked at below
        if index == 2:
            break
    assert batch.is_cuda
    del batch
    gc.collect()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before


def test_copies_run_beside_the_consumers_kernels() -> None:
    """The copy of the next batch ends while the consumer's kernel still runs."""
    source = [torch.zeros(1 << 20).pin_memory() for _ in range(4)]
    prefetcher = DevicePrefetcher(source)
    batches = iter(prefetcher)
    next(batches)
    torch.cuda.synchronize()
    torch.cuda._sleep(2_000_000_000)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - cycles: about a second
    user = torch.cuda.current_stream()
    waiting: Any = batches
    waiting._send()  # noqa: SLF001 - what the next call begins with
    batch = next(batches)
    waiting._lane.stream.synchronize()  # noqa: SLF001
    assert not user.query()
    assert batch.is_cuda
