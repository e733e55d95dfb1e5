"""Known delays: of fetches, in workers and without them, and of the training thread's steps."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader

from gapless.model.edit import Location, Wrap
from tests.payload.laying import apply_edits

if TYPE_CHECKING:
    from collections.abc import Callable

LOADER = "torch.utils.data.DataLoader"
MS = 1_000_000
DATA: Any = torch.arange(8)


def delay_fetches(ms: float, location: Location | None = None) -> Wrap:
    return Wrap(LOADER, "delay", {"place": "fetch", "ns": round(ms * MS)}, location)


def time_samples(loader: DataLoader[Any]) -> tuple[list[int], float]:
    """Return what a loader gives, and how long that took in ms."""
    start_s = time.perf_counter()
    samples = [int(sample) for batch in loader for sample in batch]
    return samples, (time.perf_counter() - start_s) * 1e3


def test_each_fetch_in_the_training_process_takes_so_much_longer() -> None:
    with apply_edits(delay_fetches(30)) as edit_log:
        samples, ms = time_samples(DataLoader(DATA, 2))
        assert samples == list(range(8))
        assert ms >= 4 * 30
        assert edit_log.times() == 4
    quickest = min(time_samples(DataLoader(DATA, 2))[1] for _ in range(20))
    assert quickest < 4 * 30


def test_an_epoch_begun_anew_is_delayed_as_well() -> None:
    with apply_edits(delay_fetches(1)) as edit_log:
        loader = DataLoader(DATA, 4)
        assert time_samples(loader)[0] == time_samples(loader)[0]
        assert edit_log.times() == 4


def test_workers_share_the_delay_and_the_training_process_has_none() -> None:
    with apply_edits(delay_fetches(100)) as edit_log:
        samples, ms = time_samples(DataLoader(DATA, 2, num_workers=2))
        assert samples == list(range(8))
        assert ms >= 2 * 100
        assert edit_log.times() == 0  # here: workers tell in their own logs


def test_loaders_of_another_line_are_not_delayed() -> None:
    with apply_edits(delay_fetches(1, Location(__file__, 1))) as edit_log:
        time_samples(DataLoader(DATA, 2))
        assert edit_log.times() == 0


def test_the_training_thread_is_delayed_once_it_has_stepped() -> None:
    with apply_edits(Wrap(LOADER, "delay", {"place": "step", "ns": 500 * MS})) as edit_log:
        assert duration_s(edit_log.edge) >= 0.5
        assert edit_log.times() == 1
    assert any(duration_s(edit_log.edge) < 0.5 for _ in range(20))


def duration_s(action: Callable[[], object]) -> float:
    """Return how long something takes, in s."""
    start_s = time.perf_counter()
    action()
    return time.perf_counter() - start_s
