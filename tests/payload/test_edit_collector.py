"""The collector runs when the edit says, and the training may have it back."""

import gc
from collections.abc import Iterator

import pytest

from gapless.model.edit import Wrap
from tests.payload.laying import EditLog, apply_edits


@pytest.fixture
def collecting() -> Iterator[None]:
    assert gc.isenabled()
    gc.unfreeze()  # what was collected as tests
    yield
    assert gc.isenabled()
    assert not gc.get_freeze_count()
    gc.freeze()


def freed_edges(edit_log: EditLog, n_edges: int) -> list[int]:
    """Return the edges at which a cycle made before them was collected."""
    freed = list[int]()
    for edge in range(n_edges):
        cycle = Cycle(edge, freed)
        cycle.itself = cycle
        del cycle
        edit_log.edge(edge)
    return freed


class Cycle:
    """Notes when it is collected."""

    def __init__(self, edge: int, freed: list[int]) -> None:
        self.itself: Cycle | None = None
        self.edge, self.freed = edge, freed

    def __del__(self) -> None:
        self.freed.append(self.edge)


@pytest.mark.usefixtures("collecting")
def test_the_collector_runs_at_each_so_manyth_edge_only() -> None:
    with apply_edits(Wrap("gc", "collector", {"every": 3, "freeze": True})) as edit_log:
        freed = freed_edges(edit_log, 6)
        assert freed == [0, 1, 2, 3]  # the first when all was frozen, the others at the fourth edge
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
        assert edit_log.times() == 1
        assert edit_log.values[0]["new"] == "every 3 steps"


@pytest.mark.usefixtures("collecting")
def test_a_training_that_turns_the_collector_on_has_it() -> None:
    with apply_edits(Wrap("gc", "collector", {"every": None, "freeze": True})) as edit_log:
        edit_log.edge()
        assert not gc.isenabled()
        gc.enable()
        edit_log.edge()
        assert not gc.get_freeze_count()
        assert edit_log.unobserved == ["edit 0: gc: the training turns collections on again"]
