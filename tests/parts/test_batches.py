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

from gapless.parts.batches import convert, find_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TENSOR = torch.ones(2)


class Pair(NamedTuple):
    """A named tuple."""

    x: Any
    y: Any


@dataclasses.dataclass(frozen=True)
class FrozenSample:
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
        self.x, self.name = TENSOR, "name"

    def pin_memory(self) -> Pinnable:
        return self


class Movable:
    """An object that moves itself."""

    def __init__(self) -> None:
        self.parts = {"x": [TENSOR]}

    def to(self, _device: object) -> Movable:
        return self


def double(batch: Any) -> Any:  # noqa: ANN401
    return convert(batch, lambda tensor: tensor * 2, lambda obj: ("moved", obj))


CASES: list[tuple[Any, Callable[[Any], Any]]] = [
    (TENSOR, lambda batch: batch),
    ([TENSOR, 3], lambda batch: batch[0]),
    ((TENSOR, "text"), lambda batch: batch[0]),
    (Tuple([TENSOR]), lambda batch: batch[0]),
    (Pair(1, TENSOR), lambda batch: batch.y),
    ({"x": {"y": (TENSOR,)}}, lambda batch: batch["x"]["y"][0]),
    (Words(x=TENSOR), lambda batch: batch["x"]),
    (collections.defaultdict(list, x=TENSOR), lambda batch: batch["x"]),
    (collections.OrderedDict(x=TENSOR), lambda batch: batch["x"]),
    (collections.UserDict(x=TENSOR), lambda batch: batch["x"]),
    (collections.UserList([TENSOR]), lambda batch: batch[0]),
    (Shut({"x": TENSOR}), lambda batch: batch["x"]),
    (FrozenSample(TENSOR), lambda batch: batch.x),
    (Pinnable(), lambda batch: batch.x),
]


@pytest.mark.parametrize(("batch", "find"), CASES)
def test_the_tensor_is_changed_and_the_container_is_new_and_of_its_class(
    batch: Any,  # noqa: ANN401
    find: Callable[[Any], Any],
) -> None:
    doubled_batch = double(batch)
    assert type(doubled_batch) is type(batch)
    assert find(doubled_batch).tolist() == [2, 2]
    assert find(batch) is TENSOR
    assert TENSOR.tolist() == [1, 1]


def test_a_mapping_that_cannot_be_made_anew_becomes_a_dict() -> None:
    assert double(MappingProxyType({"x": TENSOR}))["x"].tolist() == [2, 2]


@pytest.mark.parametrize(
    "batch",
    ["text", b"bytes", 3, 2.5, None, [1, "a"], {"a": (1,)}, range(3), object(), torch.Size([2])],
)
def test_what_has_no_tensor_stays_the_same_object(batch: Any) -> None:  # noqa: ANN401
    assert double(batch) is batch


def test_objects_that_can_move_themselves_do_so_whole() -> None:
    packed = pack_sequence([torch.ones(2), torch.ones(1)])
    for obj in (Movable(), packed):
        assert double([obj]) == [("moved", obj)]


def test_a_module_in_a_batch_is_left_alone() -> None:
    module = torch.nn.Linear(1, 1)
    assert double((module,))[0] is module


def test_tensors_are_found_in_objects() -> None:
    assert [tensor is TENSOR for tensor in find_tensors(Movable())] == [True]
    assert len(list(find_tensors(pack_sequence([torch.ones(2)])))) == 2
    assert list(find_tensors({"a": "text"})) == []
