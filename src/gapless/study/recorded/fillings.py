"""How full a loader's batches were, from the few that the recorder looked at."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final, cast

from gapless.model.facts import Filling
from gapless.model.recording import Process
from gapless.study.recorded.values import text, whole

_FEW: Final = 3  # batches: of fewer, nothing is said
_MOST: Final = 0.5  # of the batches must tell lengths that agree
_SEQUENCE: Final = 2  # dimensions of a batch of numbers that are looked up
_PLAIN: Final = 3  # dimensions of what no length is told of: more are images


@dataclass(frozen=True)
class _Look:
    """One length of one batch."""

    rows: int
    length: int
    filled: float
    longest: float
    square: float
    told: bool


def filling(process: Process, numbers: Sequence[int]) -> Filling | None:
    """Give how full the batches of some loaders are; ``None`` if they have no length to fill.

    Of several lengths the one that is told of, and that is filled least. What is not told of must
    be numbers that are looked up, or differ in length from batch to batch: a picture's border is
    padding of no sequence.
    """
    found: dict[tuple[str, int, int], list[_Look]] = {}
    for key, look in _looks(process, numbers):
        found.setdefault(key, []).append(look)
    known = [_filling(key, looks) for key, looks in found.items() if len(looks) >= _FEW]
    likely = [one for one in known if _has_length(one)]
    return min(likely, key=lambda one: (not one.told, one.filled), default=None)


def _has_length(one: Filling) -> bool:
    looked_up = one.kind == "int" and one.dimensions == _SEQUENCE
    return one.told or looked_up or (one.varies and one.dimensions <= _PLAIN)


def _filling(key: tuple[str, int, int], looks: Sequence[_Look]) -> Filling:
    lengths = sorted({one.length for one in looks})
    positions = [one.rows * one.length for one in looks]
    return Filling(
        batches=len(looks),
        rows=round(median(one.rows for one in looks)),
        length=round(median(one.length for one in looks)),
        lengths=tuple(lengths),
        filled=fmean((one.filled for one in looks), positions),
        longest=fmean(one.longest for one in looks),
        square=fmean((one.square for one in looks), positions),
        told=sum(one.told for one in looks) >= _MOST * len(looks),
        varies=len(lengths) > 1,
        kind=key[0],
        dimensions=key[1],
    )


def _looks(
    process: Process, numbers: Sequence[int]
) -> Iterator[tuple[tuple[str, int, int], _Look]]:
    for fact in process.facts:
        if fact.noun == "filling" and fact.values.get("loader") in numbers:
            every = fact.values.get("lengths")
            for one in cast("list[object]", every) if isinstance(every, list) else ():
                look = _look(cast("Mapping[str, object]", one)) if isinstance(one, dict) else None
                if look is not None:
                    yield look


def _look(found: Mapping[str, object]) -> tuple[tuple[str, int, int], _Look] | None:
    kind = text(found.get("kind"))
    sizes = [whole(found.get(name)) for name in ("rows", "length", "dimensions", "along")]
    shares = [found.get(name) for name in ("filled", "longest", "square")]
    if kind is None or any(one is None for one in sizes):
        return None
    if not all(isinstance(one, int | float) for one in shares):
        return None
    rows, length, dimensions, along = cast("list[int]", sizes)
    filled, longest, square = (min(1.0, float(one)) for one in cast("list[float]", shares))
    told = found.get("by") is not None
    return (kind, dimensions, along), _Look(rows, length, filled, longest, square, told)
