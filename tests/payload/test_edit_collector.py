"""The collector runs when the edit says, and the training may have it back."""

import gc
from collections.abc import Iterator

import pytest

from gapless.model.edit import Wrap
from tests.payload.laying import Told, laid


@pytest.fixture
def collecting() -> Iterator[None]:
    assert gc.isenabled()
    assert not gc.get_freeze_count()
    yield
    assert gc.isenabled()
    assert not gc.get_freeze_count()


def edges(told: Told, many: int) -> list[int]:
    """Give the edges at which a cycle made before them was collected."""
    freed = list[int]()
    for at in range(many):
        made = Cycle(at, freed)
        made.itself = made
        del made
        told.edge(at)
    return freed


class Cycle:
    """Notes when it is collected."""

    def __init__(self, at: int, freed: list[int]) -> None:
        self.itself: Cycle | None = None
        self.at, self.freed = at, freed

    def __del__(self) -> None:
        self.freed.append(self.at)


@pytest.mark.usefixtures("collecting")
def test_the_collector_runs_at_each_so_manyth_edge_only() -> None:
    with laid(Wrap("gc", "collector", {"every": 3, "freeze": True})) as told:
        freed = edges(told, 6)
        assert freed == [0, 1, 2, 3]  # the first when all was frozen, the others at the fourth edge
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
        assert told.times() == 1
        assert told.values[0]["new"] == "every 3 steps"


@pytest.mark.usefixtures("collecting")
def test_a_training_that_turns_the_collector_on_has_it() -> None:
    with laid(Wrap("gc", "collector", {"every": None, "freeze": True})) as told:
        told.edge()
        assert not gc.isenabled()
        gc.enable()
        told.edge()
        assert not gc.get_freeze_count()
        assert told.unseen == ["edit 0: gc: the training turns collections on again"]
