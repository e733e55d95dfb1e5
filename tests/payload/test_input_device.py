"""Pinning, copying and decoding on a device, with what stands in for one."""

import sys
from typing import Any

import pytest
import torch

from gapless.payload.feeding import batches, collating, device


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have tensors copied to a device that is none; return what was asked of it."""
    asked: list[str] = []
    pinning = sys.modules["torch.utils.data._utils.pin_memory"]

    def copy(tensor: torch.Tensor, *, non_blocking: bool = False) -> torch.Tensor:
        assert non_blocking or tensor.dim() == 4
        asked.append("copy")
        return tensor.clone()

    def pin(batch: Any) -> Any:  # noqa: ANN401
        asked.append("pin")
        return batch

    monkeypatch.setattr(pinning, "pin_memory", pin)
    monkeypatch.setattr(torch.Tensor, "cuda", copy)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: asked.append("wait"))
    return asked


def test_the_loader_s_own_way_is_now_and_the_other_one_beside_it(calls: list[str]) -> None:
    batch = {"x": torch.rand(4, 3), "name": ["a"] * 4}
    pinned = device.time_copies(batch, 4, is_pinned=True, variant=batches.NOW)
    assert list(pinned) == [("pin", "now"), ("copy", "now"), ("copy", "pageable")]
    plain = device.time_copies(batch, 4, is_pinned=False, variant=batches.NOW)
    assert list(plain) == [("pin", "pinned"), ("copy", "now"), ("copy", "pinned")]
    as_bytes = device.time_copies(batch, 4, is_pinned=True, variant=batches.BYTES)
    assert list(as_bytes) == [("pin", batches.BYTES), ("copy", batches.BYTES)]
    assert calls[:7] == ["pin", "wait", "copy", "wait", "wait", "copy", "wait"]
    assert all(ns > 0 for figures in (pinned, plain, as_bytes) for ns in figures.values())


def test_floats_of_pictures_are_made_before_and_after_the_copy(calls: list[str]) -> None:
    batch = [torch.zeros(2, 3, 4, 4, dtype=torch.uint8), torch.zeros(2)]
    figures = device.time_floats(batch, 2)
    assert list(figures) == [("floats", "made on the host"), ("floats", "made on the device")]
    assert calls.count("copy") == 2
    assert device.time_floats(batch[1:], 2) == {}


def test_without_a_device_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device.explain_lack() == "no CUDA device is there"


def test_only_tensors_are_copied() -> None:
    batch = collating.map_leaves([("a", 1), {"b": torch.ones(2)}], lambda leaf: type(leaf).__name__)
    assert batch == [("str", "int"), {"b": "Tensor"}]
