"""What a measurement gives, and how repetitions are made and summed up."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

NS, BYTES, FLOPS = "ns", "B/s", "FLOP/s"  # units
_MAX_ROUNDS = 40  # rounds
_TENTH = 0.1


class ProbeConditions(NamedTuple):
    """What a measurement is given."""

    device: int | None  # number of the GPU, as torch counts; None: the processors alone
    path: str | None  # of the training's data
    files: tuple[str, ...]  # of the training's data, which may be read and dropped from memory
    largest: int  # bytes that one buffer may take
    until: float  # seconds of ``time.monotonic``: no further round is begun then
    readers: tuple[int, ...] = ()  # of files, at a time; empty: as usual


class ProbeFigure(NamedTuple):
    """One constant, or why there is none: median, 10th and 90th percentile of the rounds."""

    name: str
    at: int | None  # bytes, threads: what the constant was measured at
    value: float | None
    low: float | None
    high: float | None
    times: int  # rounds
    spent_s: float
    note: str | None
    why: str | None


def lack_nothing(_: ProbeConditions) -> str | None:
    """Return what is lacking of what was asked for: nothing."""
    return None


class Measurement(NamedTuple):
    """A function that measures constants; its docstring is the method."""

    part_name: str
    act: Callable[[ProbeConditions], Iterator[ProbeFigure]]
    units: Mapping[str, str]  # by name, all that it may give
    seconds: float  # that it may take, about
    gpu: bool = False
    torch: bool = True
    # it cannot be measured, for want of what
    explain_lack: Callable[[ProbeConditions], str | None] = lack_nothing


class RoundSeries(NamedTuple):
    """What one act gave, round by round."""

    values: list[float]
    spent_s: list[float]


Key = TypeVar("Key")


def run_rounds(
    acts: Mapping[Key, Callable[[], float]], until: float, max_rounds: int = _MAX_ROUNDS
) -> dict[Key, RoundSeries]:
    """Call all acts in turns until the time is up; return their results, round by round.

    In turns, so that a disturbance meets all alike. The first round, with what is loaded and
    grown in it, is not counted; one more is made in any case.
    """
    for act in acts.values():
        act()
    series_by_key = {key: RoundSeries([], []) for key in acts}
    for turn in range(max_rounds):
        if turn and time.monotonic() > until:
            break
        for key, act in acts.items():
            began = time.perf_counter()
            series_by_key[key].values.append(act())
            series_by_key[key].spent_s.append(time.perf_counter() - began)
    return series_by_key


def make_figure(
    name: str,
    values: Sequence[float],
    spent_s: float | Sequence[float],
    size: int | None = None,
    note: str | None = None,
) -> ProbeFigure:
    """Sum up rounds; what came out as nothing, or less, was not measured."""
    spent = sum(spent_s) if isinstance(spent_s, Sequence) else spent_s
    if not values:
        return make_absent(name, "it did not happen once", size)
    middle = statistics.median(values)
    if middle <= 0:
        return make_absent(name, "smaller than what the clocks can tell", size)
    low = high = None
    if len(values) > 1:
        low, high = (quantile(values, _TENTH), quantile(values, 1 - _TENTH))
    return ProbeFigure(name, size, middle, low, high, len(values), spent, note, None)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of all lies, between two of them in proportion."""
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def make_absent(name: str, why: str, size: int | None = None) -> ProbeFigure:
    """Return a figure that says why a constant was not measured."""
    return ProbeFigure(name, size, None, None, None, 0, 0.0, None, why)


def rates(work: float, series: RoundSeries) -> list[float]:
    """Return work done a second, of rounds that took so many ns."""
    return [work * 1e9 / ns for ns in series.values if ns > 0]


def describe_error(error: BaseException) -> str:
    """Return an error's class and its first line."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200]}" if text else type(error).__name__


def spin(cycles: int) -> None:
    """Keep the GPU busy for so many of its cycles: what is launched meanwhile queues up."""
    import torch

    torch.cuda._sleep(cycles)  # noqa: SLF001
