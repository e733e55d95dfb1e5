"""Calls of one module with the same tensors, once without gradients: told with their line."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch._dynamo.utils as dynamo
from torch.nn.modules import module as hooks

from gapless.payload import patching, recorder
from gapless.payload.hooks import forwards
from gapless.payload.windows import repeats
from gapless.payload.windows.repeats import Repeats

Told = list[tuple[dict[str, Any], tuple[str, int, str]]]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    found: Told = []

    def fact(noun: str, _thing: object, values: dict[str, Any], place: tuple[str, int, str]) -> int:
        assert noun == "repeat"
        found.append((values, place))
        return 0

    monkeypatch.setattr(recorder, "fact", fact)
    return found


@pytest.fixture
def watched(told: Told) -> Iterator[Repeats]:
    assert told == []
    patching.resume()  # of another test
    yield (here := Repeats(hooks))
    here.end()
    assert not hooks._global_forward_pre_hooks  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())


def test_the_same_batch_without_gradients_is_told_once_with_its_line(
    watched: Repeats, told: Told
) -> None:
    net, batch = network(), torch.ones(2, 3)
    net(batch).sum().backward()
    with torch.no_grad():
        net(batch)
    watched.end()
    ((values, place),) = told
    assert values == {"class": "torch.nn.modules.container.Sequential", "calls": 1.0}
    assert place[0] == __file__
    assert place[2] == test_the_same_batch_without_gradients_is_told_once_with_its_line.__name__


def test_other_tensors_changed_ones_and_two_passes_with_gradients_are_none(
    watched: Repeats, told: Told
) -> None:
    net, other, batch = network(), network(), torch.ones(2, 3)
    net(batch)
    net(batch)
    with torch.no_grad():
        net(batch.clone())
        other(batch)
        net.eval()(batch)
        batch.add_(1)
        net.train()(batch)
    watched.end()
    assert told == []


class Switched(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(
        self, rows: torch.Tensor, *, wide: bool = True, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        found: torch.Tensor = self.layer(rows)
        return found if wide and mask is None else found[:1]


def test_other_arguments_and_changed_parameters_are_another_pass(
    watched: Repeats, told: Told
) -> None:
    net, batch = Switched(), torch.ones(2, 3)
    net(batch, wide=True)
    with torch.no_grad():
        net(batch, wide=False)
        net(batch, wide=True, mask=batch)
        net.layer.bias.add_(1)
        net(batch, wide=True)
    watched.end()
    assert told == []


def test_a_helper_that_calls_both_is_no_line_of_the_second(watched: Repeats, told: Told) -> None:
    net, batch = network(), torch.ones(2, 3)
    for graphed in (True, False):
        with torch.set_grad_enabled(graphed):
            net(batch)
    watched.end()
    assert told == []


def test_what_is_compiled_meanwhile_meets_no_hook(watched: Repeats, told: Told) -> None:
    forwards._compiles()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    forwards._state["compiled"] = False  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    assert not hooks._global_forward_pre_hooks  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    watched.end()
    assert told == []


def test_nothing_is_looked_at_where_something_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(dynamo.counters["frames"], "ok", 1)
    assert repeats.watch() is None
    dynamo.counters.pop("frames")
