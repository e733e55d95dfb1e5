"""Known delays: of fetches, in workers and without them, and of the training thread's steps."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader

from gapless.model.edit import Where, Wrap
from tests.payload.laying import laid

if TYPE_CHECKING:
    from collections.abc import Callable

LOADER = "torch.utils.data.DataLoader"
MS = 1_000_000
DATA: Any = torch.arange(8)


def fetches(ms: float, where: Where | None = None) -> Wrap:
    return Wrap(LOADER, "delay", {"place": "fetch", "ns": round(ms * MS)}, where)


def timed(loader: DataLoader[Any]) -> tuple[list[int], float]:
    """Give what a loader gives, and how long that took in ms."""
    began = time.perf_counter()
    found = [int(one) for batch in loader for one in batch]
    return found, (time.perf_counter() - began) * 1e3


def test_each_fetch_in_the_training_process_takes_so_much_longer() -> None:
    with laid(fetches(30)) as told:
        found, ms = timed(DataLoader(DATA, 2))
        assert found == list(range(8))
        assert ms >= 4 * 30
        assert told.times() == 4
    quickest = min(timed(DataLoader(DATA, 2))[1] for _ in range(20))
    assert quickest < 4 * 30


def test_an_epoch_begun_anew_is_delayed_as_well() -> None:
    with laid(fetches(1)) as told:
        loader = DataLoader(DATA, 4)
        assert timed(loader)[0] == timed(loader)[0]
        assert told.times() == 4


def test_workers_share_the_delay_and_the_training_process_has_none() -> None:
    with laid(fetches(100)) as told:
        found, ms = timed(DataLoader(DATA, 2, num_workers=2))
        assert found == list(range(8))
        assert ms >= 2 * 100
        assert told.times() == 0  # here: workers tell in their own logs


def test_loaders_of_another_line_are_not_delayed() -> None:
    with laid(fetches(1, Where(__file__, 1))) as told:
        timed(DataLoader(DATA, 2))
        assert told.times() == 0


def test_the_training_thread_is_delayed_once_it_has_stepped() -> None:
    with laid(Wrap(LOADER, "delay", {"place": "step", "ns": 500 * MS})) as told:
        assert took(told.edge) >= 0.5
        assert told.times() == 1
    assert any(took(told.edge) < 0.5 for _ in range(20))


def took(act: Callable[[], object]) -> float:
    """Give how long something takes, in s."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began
