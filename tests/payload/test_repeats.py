"""Calls of one module with the same tensors, once without gradients: told with their line."""

import dis
from collections.abc import Iterator
from types import CodeType, SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from torch.nn.modules import module as hooks

from gapless.payload import patching, recorder
from gapless.payload.hooks import forwards
from gapless.payload.windows import repeats
from gapless.payload.windows.repeats import Repeats

RepeatFacts = list[tuple[dict[str, Any], tuple[str, int, str]]]


@pytest.fixture
def repeat_facts(monkeypatch: pytest.MonkeyPatch) -> RepeatFacts:
    facts: RepeatFacts = []

    def fact(
        noun: str, _entity: object, values: dict[str, Any], location: tuple[str, int, str]
    ) -> int:
        assert noun == "repeat"
        facts.append((values, location))
        return 0

    monkeypatch.setattr(recorder, "fact", fact)
    return facts


@pytest.fixture
def watched_repeats(repeat_facts: RepeatFacts) -> Iterator[Repeats]:
    assert repeat_facts == []
    patching.resume()  # of another test
    yield (watch := Repeats(hooks))
    watch.end()
    assert not hooks._global_forward_pre_hooks  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())


def test_the_same_batch_without_gradients_is_told_once_with_its_line(
    watched_repeats: Repeats, repeat_facts: RepeatFacts
) -> None:
    net, batch = network(), torch.ones(2, 3)
    net(batch).sum().backward()
    with torch.no_grad():
        assert net(batch) is not None
    watched_repeats.end()
    ((values, location),) = repeat_facts
    kind = "torch.nn.modules.container.Sequential"
    assert values == {"class": kind, "calls": 1.0, "is_left": False}
    assert location[0] == __file__
    assert location[2] == test_the_same_batch_without_gradients_is_told_once_with_its_line.__name__


def test_other_tensors_changed_ones_and_two_passes_with_gradients_are_none(
    watched_repeats: Repeats, repeat_facts: RepeatFacts
) -> None:
    net, second_net, batch = network(), network(), torch.ones(2, 3)
    net(batch)
    net(batch)
    with torch.no_grad():
        assert net(batch.clone()) is not None
        assert second_net(batch) is not None
        assert net.eval()(batch) is not None
        batch.add_(1)
        assert net.train()(batch) is not None
    watched_repeats.end()
    assert repeat_facts == []


class Switched(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(
        self, rows: torch.Tensor, *, wide: bool = True, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        output: torch.Tensor = self.layer(rows)
        return output if wide and mask is None else output[:1]


def test_other_arguments_and_changed_parameters_are_another_pass(
    watched_repeats: Repeats, repeat_facts: RepeatFacts
) -> None:
    net, batch = Switched(), torch.ones(2, 3)
    net(batch, wide=True)
    with torch.no_grad():
        assert net(batch, wide=False) is not None
        assert net(batch, wide=True, mask=batch) is not None
        net.layer.bias.add_(1)
        assert net(batch, wide=True) is not None
    watched_repeats.end()
    assert repeat_facts == []


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_result_that_nothing_takes_is_told_whatever_the_tensors_are(
    watched_repeats: Repeats, repeat_facts: RepeatFacts, is_kept: bool
) -> None:
    net, batch = network(), torch.ones(2, 3)
    with torch.no_grad():
        if is_kept:
            output = net(batch + 1)  # noqa: F841  # pyright: ignore[reportUnusedVariable]
        else:
            net(batch + 1)
    net(batch)
    watched_repeats.end()
    ((values, _),) = repeat_facts
    assert (values["calls"], values["is_left"]) == (1.0, True)


def test_a_result_is_in_use_where_a_hook_takes_a_part_of_it(
    watched_repeats: Repeats, repeat_facts: RepeatFacts
) -> None:
    net, batch = network(), torch.ones(2, 3)
    features: list[object] = []

    def keep_feature(_module: object, _rows: object, feature: object) -> None:
        features.append(feature)

    next(net.children()).register_forward_hook(keep_feature)
    with torch.no_grad():
        net(batch + 1)
    net(batch)
    watched_repeats.end()
    assert repeat_facts == []


def test_a_pass_whose_norms_learn_from_the_batch_is_in_use(
    watched_repeats: Repeats, repeat_facts: RepeatFacts
) -> None:
    net, batch = (
        torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3)),
        torch.ones(2, 3),
    )
    with torch.no_grad():
        net(batch + 1)
    net(batch)
    watched_repeats.end()
    assert repeat_facts == []


def test_a_pass_before_several_with_gradients_is_one_repeat_and_its_place_is_read_once(
    watched_repeats: Repeats, repeat_facts: RepeatFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_places: list[CodeType] = []
    get_instructions = dis.get_instructions

    def note_place(code: CodeType) -> Iterator[dis.Instruction]:
        read_places.append(code)
        return get_instructions(code)

    monkeypatch.setattr(dis, "get_instructions", note_place)
    net, batch = network(), torch.ones(2, 3)
    for _ in range(3):
        with torch.no_grad():
            net(batch + 1)
    for _ in range(4):
        net(batch)
    watched_repeats.end()
    assert [values["calls"] for values, _ in repeat_facts] == [3.0]
    assert len(read_places) == 1


def test_a_helper_that_calls_both_is_no_line_of_the_second(
    watched_repeats: Repeats, repeat_facts: RepeatFacts
) -> None:
    net, batch = network(), torch.ones(2, 3)
    for with_gradients in (True, False):
        with torch.set_grad_enabled(with_gradients):
            net(batch)
    watched_repeats.end()
    assert repeat_facts == []


def test_what_is_compiled_meanwhile_meets_no_hook(
    watched_repeats: Repeats, repeat_facts: RepeatFacts
) -> None:
    forwards._note_compiling()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    forwards._state.has_compiled = False  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    assert not hooks._global_forward_pre_hooks  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    watched_repeats.end()
    assert repeat_facts == []


def test_nothing_is_looked_at_where_something_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._dynamo.utils as dynamo  # noqa: PLC0415 - seconds that only this test needs

    monkeypatch.setitem(dynamo.counters["frames"], "ok", 1)
    assert repeats.watch() is None
    dynamo.counters.pop("frames")


class _Instruction(NamedTuple):
    offset: int
    opname: str
    argval: object


@pytest.mark.parametrize(
    ("operations", "is_left"),
    [
        ((("STORE_FAST_LOAD_FAST", ("out", "x")), ("RETURN_VALUE", None)), True),
        ((("STORE_FAST_LOAD_FAST", ("out", "out")), ("RETURN_VALUE", None)), False),
        ((("STORE_FAST_STORE_FAST", ("out", "x")), ("LOAD_FAST", "x")), True),
        ((("STORE_FAST_STORE_FAST", ("out", "x")), ("LOAD_FAST_LOAD_FAST", ("x", "out"))), False),
        ((("STORE_FAST", "out"), ("STORE_FAST_STORE_FAST", ("x", "out"))), True),
        ((("POP_TOP", None), ("RETURN_CONST", None)), True),
        ((("LOAD_FAST_LOAD_FAST", ("x", "out")), ("RETURN_CONST", None)), False),
    ],
)
def test_what_takes_a_result_is_known_of_joined_instructions_too(
    operations: tuple[tuple[str, object], ...], is_left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [("CALL", 1), *operations]
    instructions = [_Instruction(2 * at, *row) for at, row in enumerate(rows)]

    def list_instructions(_code: object) -> list[_Instruction]:
        return instructions

    monkeypatch.setattr(repeats.dis, "get_instructions", list_instructions)
    frame = SimpleNamespace(f_code=None, f_lasti=0)
    assert repeats._is_result_left(frame) is is_left  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
