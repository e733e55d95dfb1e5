"""How many gradients are stored for each optimizer's step of real steps, where several step."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import gapless
from gapless.model.study import UPDATES

STEPS = 4


class Pair:
    """A generator and its judge, with four parameters each."""

    def __init__(self) -> None:
        self.made, self.judge = (nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)) for _ in range(2))
        self.makes = torch.optim.SGD(self.made.parameters(), lr=0.1)
        self.judges = torch.optim.SGD(self.judge.parameters(), lr=0.1)

    def train_in_turn(self, *, detach: bool, clear: bool = True) -> None:
        fake = self.made(torch.ones(4, 8))
        if clear:
            self.judges.zero_grad()
        self.judge(fake.detach() if detach else fake).sum().backward(retain_graph=True)
        self.judges.step()
        if clear:
            self.makes.zero_grad()
        self.judge(self.made(torch.ones(4, 8))).sum().backward()
        self.makes.step()

    def train_together(self) -> None:
        self.makes.zero_grad()
        self.judges.zero_grad()
        self.judge(self.made(torch.ones(4, 8))).sum().backward()
        self.judge(torch.ones(4, 8)).sum().backward()
        self.makes.step()
        self.judges.step()


def count_updates(step: Callable[[], None], path: Path) -> float | None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for number in range(STEPS):
            with torch.profiler.record_function(f"ProfilerStep#{number}"):
                step()
    profiler.export_chrome_trace(str(path))
    study = gapless.open(path, cache=False)
    rows = [row for row in study.tables.operators if row.name == UPDATES]
    return rows[0].calls / (study.account.steps or 1) if rows else None


def not_detached(pair: Pair) -> None:
    pair.train_in_turn(detach=False)


def detached(pair: Pair) -> None:
    pair.train_in_turn(detach=True)


def summed_over_turns(pair: Pair) -> None:
    pair.train_in_turn(detach=False, clear=False)


@pytest.mark.parametrize(
    ("step", "count"),
    [(not_detached, 8), (detached, 4), (summed_over_turns, None), (Pair.train_together, None)],
)
def test_gradients_of_each_turn_are_counted_where_no_other_turn_uses_them(
    step: Callable[[Pair], None], count: int | None, tmp_path: Path
) -> None:
    pair = Pair()
    assert count_updates(lambda: step(pair), tmp_path / "trace.json") == count
