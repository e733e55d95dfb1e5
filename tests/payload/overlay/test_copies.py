"""Edits of copies to the device, as far as they can be seen without one (else: ``tests/gpu``)."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from gapless.model.edit import Location, Wrap
from gapless.parts import device_prefetcher
from tests.payload.laying import apply_edits

if TYPE_CHECKING:
    from collections.abc import Generator

LOADER = "torch.utils.data.DataLoader"
PREFETCHER = Wrap(LOADER, "device-prefetcher", {"ahead": 2})
NON_BLOCKING = Wrap("torch.Tensor.to", "non-blocking")


class SendingLane:
    """A lane that notes the batches which were sent."""

    def __init__(self, device: object) -> None:
        self.device = device
        self.sent: list[float] = []
        lanes.append(self)

    def send(self, batch: Any) -> Any:  # noqa: ANN401
        self.sent.append(batch[0][0].item())
        return batch

    def arrive(self, batch: Any) -> Any:  # noqa: ANN401
        return [batch[0] + 100]


lanes: list[SendingLane] = []


@pytest.fixture
def recorded_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    lanes.clear()
    monkeypatch.setattr(device_prefetcher, "cuda_device", lambda _device: "noted")  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    monkeypatch.setattr(device_prefetcher, "CopyLane", SendingLane)


def loader(**settings: Any) -> DataLoader[Any]:  # noqa: ANN401
    return DataLoader(TensorDataset(torch.arange(6.0)), 1, **settings)


def train(batches: Any) -> Generator[float]:  # noqa: ANN401
    weight = torch.zeros(1, requires_grad=True)
    for (batch,) in batches:
        (batch * weight).sum().backward()
        yield batch.item()


@pytest.mark.usefixtures("recorded_lanes")
@pytest.mark.parametrize(
    "settings", [{}, {"num_workers": 1}, {"num_workers": 1, "persistent_workers": True}]
)
def test_batches_are_prefetched_from_the_second_on(settings: dict[str, Any]) -> None:
    before = dict(vars(DataLoader))
    with apply_edits(PREFETCHER) as edit_log:
        batches = loader(**settings)
        assert list(train(batches)) == [0, 101, 102, 103, 104, 105]
        assert list(train(batches)) == [100, 101, 102, 103, 104, 105]
        assert lanes[0].sent == [1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]
        assert edit_log.times() == 11
    assert dict(vars(DataLoader)) == before
    assert list(train(batches)) == [0, 1, 2, 3, 4, 5]
    assert len(lanes) == 1


@pytest.mark.usefixtures("recorded_lanes")
def test_two_batches_are_on_their_way() -> None:
    with apply_edits(PREFETCHER):
        batches = train(loader())
        values = [next(batches) for _ in range(3)]
        assert lanes[0].sent == [1, 2, 3, 4]
    values += list(batches)
    assert values == [0, 101, 102, 103, 104, 105]


@pytest.mark.usefixtures("recorded_lanes")
def test_a_loader_that_does_not_train_is_not_prefetched() -> None:
    with apply_edits(PREFETCHER) as edit_log:
        assert [batch.item() for (batch,) in loader()] == [0, 1, 2, 3, 4, 5]
        assert edit_log.times() == 0


@pytest.mark.usefixtures("recorded_lanes")
def test_a_second_iteration_of_persistent_workers_begins_anew_after_an_early_end() -> None:
    with apply_edits(PREFETCHER):
        batches = loader(num_workers=1, persistent_workers=True)
        for value in train(batches):
            if value == 102:
                break
        assert list(train(batches)) == [100, 101, 102, 103, 104, 105]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_device_it_is_refused() -> None:
    with apply_edits(PREFETCHER) as edit_log:
        assert list(train(loader())) == [0, 1, 2, 3, 4, 5]
        assert edit_log.times() == 0
        assert "there is no CUDA device" in edit_log.unobserved[0]


# ── Copies that do not block ────────────────────────────────────────────────────────────────────


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any, Any]]:
    """Return the copies that are asked for; all tensors say that they are pinned."""
    calls: list[tuple[str, Any, Any]] = []

    def to(_self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        calls.append(("to", args, kwargs))

    def cuda(_self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        calls.append(("cuda", args, kwargs))

    def is_pinned(_self: Any) -> bool:  # noqa: ANN401
        return True

    for function in (to, cuda, is_pinned):
        monkeypatch.setattr(torch.Tensor, function.__name__, function)
    return calls


def test_copies_of_pinned_tensors_do_not_block(copies: list[Any]) -> None:
    device = torch.device("cuda", 0)
    tensor: Any = torch.zeros(1)
    with apply_edits(NON_BLOCKING) as edit_log:
        tensor.to("cuda")
        tensor.to(device=device, dtype=torch.float64)
        tensor.to(0)
        tensor.cuda()
        torch.nn.Parameter(tensor).cuda(0)
        assert all(kwargs.pop("non_blocking") is True for _, _, kwargs in copies)
        assert copies[1] == ("to", (), {"device": device, "dtype": torch.float64})
        assert edit_log.times() == 5


def test_what_says_so_itself_or_goes_elsewhere_is_left_alone(copies: list[Any]) -> None:
    tensor: Any = torch.zeros(1)
    with apply_edits(NON_BLOCKING) as edit_log:
        tensor.to("cuda", non_blocking=False)
        tensor.to("cuda", None, False)  # noqa: FBT003
        tensor.cuda(0, False)  # noqa: FBT003
        tensor.to("cpu")
        tensor.to(torch.float64)
        tensor.to(torch.zeros(1))
        torch.zeros(1, device="meta").to("cuda")
        assert all("non_blocking" not in kwargs for _, _, kwargs in copies[1:])
        assert len(copies) == 7
        assert edit_log.times() == 0
        assert not edit_log.unobserved


def test_pageable_sources_are_counted(copies: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def is_pinned(_self: Any) -> bool:  # noqa: ANN401
        return False

    monkeypatch.setattr(torch.Tensor, "is_pinned", is_pinned)
    with apply_edits(NON_BLOCKING) as edit_log:
        torch.zeros(1).to("cuda")
        torch.zeros(1).cuda()
        assert [kwargs for _, _, kwargs in copies] == [{}, {}]
        assert edit_log.unobserved == ["non-blocking copy: the source is not pinned"] * 2


def test_only_copies_of_that_line(copies: list[Any]) -> None:
    def copy() -> None:
        torch.zeros(1).to("cuda")

    location = Location(__file__, copy.__code__.co_firstlineno + 1)
    with apply_edits(Wrap("torch.Tensor.to", "non-blocking", {}, location)):
        copy()
        torch.zeros(1).to("cuda")
        assert [kwargs for _, _, kwargs in copies] == [{"non_blocking": True}, {}]


def test_compiled_copies_are_what_they_were_and_all_comes_off() -> None:
    names = set(vars(torch.Tensor))
    method = torch.Tensor.to

    def convert_twice(x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.float64).to("cpu", torch.float32) * 2

    with apply_edits(NON_BLOCKING):
        assert torch.Tensor.to is not method
        torch.compiler.reset()
        compiled = torch.compile(convert_twice, backend="aot_eager", fullgraph=True)
        assert compiled(torch.ones(2)).tolist() == [2, 2]
        assert pickle.loads(pickle.dumps(torch.ones(1))).item() == 1  # noqa: S301
        torch.nn.Linear(1, 1).to("cpu", torch.float64)
    torch.compiler.reset()
    assert torch.Tensor.to is method
    assert set(vars(torch.Tensor)) - names <= {"__slotnames__"}  # what pickle keeps there
