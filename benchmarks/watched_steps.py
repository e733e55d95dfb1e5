"""How much longer steps of two small networks take while something looks at all they do, on a CPU.

    python -m benchmarks.watched_steps     # benchmarks/results/watched_steps.json

Profilers, a mode that counts operations, watchers of Python's calls, lines and allocations, checks
of distributions: blocks of steps with and without it take turns, by the thread's processor time.
"""

import contextlib
import cProfile
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn
from torch.distributions import Categorical
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.machine import machine, write_result

_TURNS: Final = 9
_STEPS: Final = 25
_RESULT: Final = Path(__file__).parent / "results" / "watched_steps.json"
_Step = Callable[[bool], None]


@contextlib.contextmanager
def _calls() -> Generator[None]:
    sys.setprofile(lambda *_: None)
    yield
    sys.setprofile(None)


@contextlib.contextmanager
def _lines() -> Generator[None]:
    def trace(*_: object) -> Any:  # noqa: ANN401 - as sys.settrace wants it
        return trace

    sys.settrace(trace)
    yield
    sys.settrace(None)


@contextlib.contextmanager
def _allocations() -> Generator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


_WATCHERS: Final[dict[str, Callable[[], contextlib.AbstractContextManager[Any]]]] = {
    "torch.profiler": lambda: profile(activities=[ProfilerActivity.CPU]),
    "FlopCounterMode": lambda: FlopCounterMode(display=False),
    "cProfile": cProfile.Profile,
    "sys.setprofile": _calls,
    "sys.settrace": _lines,
    "tracemalloc": _allocations,
}


def _training(model: nn.Module, inputs: torch.Tensor) -> _Step:
    optimizer = torch.optim.Adam(model.parameters())

    def step(checks: bool) -> None:  # noqa: FBT001 - whether distributions check their arguments
        optimizer.zero_grad()
        outputs = model(inputs)
        for row in outputs.flatten(0, -2)[:20]:
            Categorical(logits=row, validate_args=checks)
        outputs.square().mean().backward()
        optimizer.step()

    return step


def _block_s(step: _Step, *, checks: bool = False) -> float:
    begin = time.thread_time()
    for _ in range(_STEPS):
        step(checks)
    return time.thread_time() - begin


def _ratio(step: _Step, watch: Callable[[], contextlib.AbstractContextManager[Any]]) -> float:
    """Return how many times as long steps take with it, in the median of turns."""
    ratios: list[float] = []
    for _ in range(_TURNS):
        plain_s = _block_s(step)
        with watch():
            ratios.append(_block_s(step) / plain_s)
    return statistics.median(ratios)


def _check_shares(step: _Step) -> dict[str, float]:
    """Return what checks take of steps, and what their functions take of a profiled block."""
    pairs = [(_block_s(step, checks=True), _block_s(step)) for _ in range(_TURNS)]
    functions = cProfile.Profile()
    with functions:
        watched_s = _block_s(step, checks=True)
    rows = functions.getstats()
    seen_s = sum(
        row.totaltime
        for row in rows
        if getattr(row.code, "co_filename", "").endswith("distributions/distribution.py")
        and getattr(row.code, "co_name", "") == "__init__"
    )
    return {
        "of_steps": statistics.median(1 - plain_s / checked_s for checked_s, plain_s in pairs),
        "of_profiled_steps": seen_s / watched_s,
    }


def main() -> int:
    """Measure, print and write the result."""
    torch.set_num_threads(1)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
    steps = {
        "network": _training(network, torch.rand(32, 64)),
        "transformer": _training(nn.TransformerEncoder(layer, 2), torch.rand(8, 16, 32)),
    }
    rows = {
        name: {watcher: _ratio(step, watch) for watcher, watch in _WATCHERS.items()}
        | {"distribution checks": _check_shares(step)}
        for name, step in steps.items()
    }
    print(write_result({"machine": machine(), "times_as_long": rows}, _RESULT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
