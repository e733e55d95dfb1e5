"""Tensors of a batch are changed wherever they are; containers keep their class."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from gapless.parts.batches import convert, tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ONE = torch.ones(2)


class Pair(NamedTuple):
    """A named tuple."""

    x: Any
    y: Any


@dataclasses.dataclass(frozen=True)
class Frozen:
    """A dataclass that is not made twice."""

    x: Any
    name: str = "name"


class Tuple(tuple[Any, ...]):
    """A tuple of a class of the user's."""

    __slots__ = ()


class Words(dict[str, Any]):
    """A dict with more than its items."""

    language = "en"


class Shut(Mapping[str, Any]):
    """A mapping that cannot be changed."""

    def __init__(self, items: dict[str, Any]) -> None:
        self.items_of_mine = dict(items)

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401
        return self.items_of_mine[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.items_of_mine)

    def __len__(self) -> int:
        return len(self.items_of_mine)


class Pinnable:
    """What ``pin_memory=True`` knows by its method."""

    def __init__(self) -> None:
        self.x, self.name = ONE, "name"

    def pin_memory(self) -> Pinnable:
        return self


class Movable:
    """An object that moves itself."""

    def __init__(self) -> None:
        self.parts = {"x": [ONE]}

    def to(self, _device: object) -> Movable:
        return self


def doubled(batch: Any) -> Any:  # noqa: ANN401
    return convert(batch, lambda one: one * 2, lambda thing: ("moved", thing))


CASES: list[tuple[Any, Callable[[Any], Any]]] = [
    (ONE, lambda made: made),
    ([ONE, 3], lambda made: made[0]),
    ((ONE, "text"), lambda made: made[0]),
    (Tuple([ONE]), lambda made: made[0]),
    (Pair(1, ONE), lambda made: made.y),
    ({"x": {"y": (ONE,)}}, lambda made: made["x"]["y"][0]),
    (Words(x=ONE), lambda made: made["x"]),
    (collections.defaultdict(list, x=ONE), lambda made: made["x"]),
    (collections.OrderedDict(x=ONE), lambda made: made["x"]),
    (collections.UserDict(x=ONE), lambda made: made["x"]),
    (collections.UserList([ONE]), lambda made: made[0]),
    (Shut({"x": ONE}), lambda made: made["x"]),
    (Frozen(ONE), lambda made: made.x),
    (Pinnable(), lambda made: made.x),
]


@pytest.mark.parametrize(("batch", "find"), CASES)
def test_the_tensor_is_changed_and_the_container_is_new_and_of_its_class(
    batch: Any,  # noqa: ANN401
    find: Callable[[Any], Any],
) -> None:
    made = doubled(batch)
    assert type(made) is type(batch)
    assert find(made).tolist() == [2, 2]
    assert find(batch) is ONE
    assert ONE.tolist() == [1, 1]


def test_a_mapping_that_cannot_be_made_anew_becomes_a_dict() -> None:
    assert doubled(MappingProxyType({"x": ONE}))["x"].tolist() == [2, 2]


@pytest.mark.parametrize(
    "batch",
    ["text", b"bytes", 3, 2.5, None, [1, "a"], {"a": (1,)}, range(3), object(), torch.Size([2])],
)
def test_what_has_no_tensor_stays_the_same_object(batch: Any) -> None:  # noqa: ANN401
    assert doubled(batch) is batch


def test_objects_that_can_move_themselves_do_so_whole() -> None:
    packed = pack_sequence([torch.ones(2), torch.ones(1)])
    for thing in (Movable(), packed):
        assert doubled([thing]) == [("moved", thing)]


def test_a_module_in_a_batch_is_left_alone() -> None:
    module = torch.nn.Linear(1, 1)
    assert doubled((module,))[0] is module


def test_tensors_are_found_in_objects() -> None:
    assert [one is ONE for one in tensors_in(Movable())] == [True]
    assert len(list(tensors_in(pack_sequence([torch.ones(2)])))) == 2
    assert list(tensors_in({"a": "text"})) == []
