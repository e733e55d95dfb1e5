"""What a measurement gives, and how repetitions are made and summed up."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

NS, BYTES, FLOPS, EACH = "ns", "B/s", "FLOP/s", "1/s"  # units
_MOST = 40  # rounds
_TENTH = 0.1


class Room(NamedTuple):
    """What a measurement is given."""

    device: int | None  # number of the GPU, as torch counts; None: the processors alone
    path: str | None  # of the training's data
    files: tuple[str, ...]  # of the training's data, which may be read and dropped from memory
    ranks: int  # processes that reduce together
    largest: int  # bytes that one buffer may take
    until: float  # seconds of ``time.monotonic``: no further round is begun then
    import_s: float  # that this process took to import torch


class Figure(NamedTuple):
    """One constant, or why there is none: the median of rounds, and their 10th and 90th parts."""

    name: str
    at: int | None  # bytes, threads: what the constant was measured at
    value: float | None
    low: float | None
    high: float | None
    times: int  # rounds
    spent_s: float
    note: str | None
    why: str | None


def nothing(_: Room) -> str | None:
    """Say what is lacking of what was asked for: nothing."""
    return None


class Measurement(NamedTuple):
    """A function that measures constants; its docstring is the method."""

    part: str
    act: Callable[[Room], Iterator[Figure]]
    units: Mapping[str, str]  # by name, all that it may give
    seconds: float  # that it may take, about
    gpu: bool = False
    torch: bool = True
    imports: bool = False  # torch, in fresh processes: needs as long as that took here
    lacks: Callable[[Room], str | None] = nothing  # it cannot be measured, for want of what


class Series(NamedTuple):
    """What one act gave, round by round."""

    values: list[float]
    spent_s: list[float]


Key = TypeVar("Key")


def rounds(
    acts: Mapping[Key, Callable[[], float]], until: float, most: int = _MOST
) -> dict[Key, Series]:
    """Call all acts in turns until the time is up; give what they returned, round by round.

    In turns, so that a disturbance meets all alike. The first round, with what is loaded and
    grown in it, is not counted; one more is made in any case.
    """
    for act in acts.values():
        act()
    found = {key: Series([], []) for key in acts}
    for turn in range(most):
        if turn and time.monotonic() > until:
            break
        for key, act in acts.items():
            began = time.perf_counter()
            found[key].values.append(act())
            found[key].spent_s.append(time.perf_counter() - began)
    return found


def figure(
    name: str,
    values: Sequence[float],
    spent_s: float | Sequence[float],
    at: int | None = None,
    note: str | None = None,
) -> Figure:
    """Sum up rounds; what came out as nothing, or less, was not measured."""
    spent = sum(spent_s) if isinstance(spent_s, Sequence) else spent_s
    if not values:
        return absent(name, "it did not happen once", at)
    middle = statistics.median(values)
    if middle <= 0:
        return absent(name, "smaller than what the clocks can tell", at)
    low = high = None
    if len(values) > 1:
        low, high = (quantile(values, _TENTH), quantile(values, 1 - _TENTH))
    return Figure(name, at, middle, low, high, len(values), spent, note, None)


def quantile(values: Sequence[float], share: float) -> float:
    """Give the value below which a share of all lies, between two of them in proportion."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def absent(name: str, why: str, at: int | None = None) -> Figure:
    """Say why a constant was not measured."""
    return Figure(name, at, None, None, None, 0, 0.0, None, why)


def rates(work: float, series: Series) -> list[float]:
    """Give work done a second, of rounds that took so many ns."""
    return [work * 1e9 / ns for ns in series.values if ns > 0]


def reason(error: BaseException) -> str:
    """Give an error's class and its first line."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200]}" if text else type(error).__name__


def spin(cycles: int) -> None:
    """Keep the GPU busy for so many of its cycles: what is launched meanwhile queues up."""
    import torch

    torch.cuda._sleep(cycles)  # noqa: SLF001
