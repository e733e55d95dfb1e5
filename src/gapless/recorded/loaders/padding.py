"""How full a loader's batches were, from the few that the recorder looked at."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, median
from typing import Final, cast

from msgspec import Struct

from gapless.model.facts import PaddingStats
from gapless.model.recording import Process
from gapless.recorded.values import as_int, as_text

_MIN_BATCHES: Final = 3  # batches: with fewer, nothing is reported
_MIN_DECLARED_SHARE: Final = 0.5  # of the batches must have lengths that agree
_SEQUENCE_DIMS: Final = 2  # dimensions of a batch of numbers for a table
_MAX_PLAIN_DIMS: Final = 3  # dimensions of a tensor without given lengths: more are images


class _Look(Struct, frozen=True):
    """One length of one batch."""

    rows: int
    length: int
    filled: float
    longest: float
    square: float
    is_declared: bool


def measure_filling(process: Process, numbers: Sequence[int]) -> PaddingStats | None:
    """Return how full the batches of some loaders are; ``None`` if they have no length to fill.

    Of several lengths, one that the batch states and that is filled least is taken. Otherwise it
    must be one of numbers for a table, or differ from batch to batch: a picture's border is not
    padding of a sequence.
    """
    looks_by_key: dict[tuple[str, int, int], list[_Look]] = {}
    for key, look in _looks(process, numbers):
        looks_by_key.setdefault(key, []).append(look)
    fillings = [
        _build_filling(key, looks)
        for key, looks in looks_by_key.items()
        if len(looks) >= _MIN_BATCHES
    ]
    likely = [filling for filling in fillings if _has_length(filling)]
    return min(likely, key=lambda filling: (not filling.declared, filling.filled), default=None)


def _has_length(filling: PaddingStats) -> bool:
    looked_up = filling.kind == "int" and filling.dimensions == _SEQUENCE_DIMS
    return (
        filling.declared or looked_up or (filling.varies and filling.dimensions <= _MAX_PLAIN_DIMS)
    )


def _build_filling(key: tuple[str, int, int], looks: Sequence[_Look]) -> PaddingStats:
    lengths = sorted({look.length for look in looks})
    positions = [look.rows * look.length for look in looks]
    return PaddingStats(
        batches=len(looks),
        rows=round(median(look.rows for look in looks)),
        length=round(median(look.length for look in looks)),
        lengths=tuple(lengths),
        filled=fmean((look.filled for look in looks), positions),
        longest=fmean(look.longest for look in looks),
        square=fmean((look.square for look in looks), positions),
        declared=sum(look.is_declared for look in looks) >= _MIN_DECLARED_SHARE * len(looks),
        varies=len(lengths) > 1,
        kind=key[0],
        dimensions=key[1],
    )


def _looks(
    process: Process, numbers: Sequence[int]
) -> Iterator[tuple[tuple[str, int, int], _Look]]:
    for fact in process.facts:
        if fact.noun == "filling" and fact.values.get("loader") in numbers:
            lengths = fact.values.get("lengths")
            for length in cast("list[object]", lengths) if isinstance(lengths, list) else ():
                look = (
                    _parse_look(cast("Mapping[str, object]", length))
                    if isinstance(length, dict)
                    else None
                )
                if look is not None:
                    yield look


def _parse_look(values: Mapping[str, object]) -> tuple[tuple[str, int, int], _Look] | None:
    kind = as_text(values.get("kind"))
    sizes = [as_int(values.get(name)) for name in ("rows", "length", "dimensions", "along")]
    shares = [values.get(name) for name in ("filled", "longest", "square")]
    if kind is None or any(size is None for size in sizes):
        return None
    if not all(isinstance(share, int | float) for share in shares):
        return None
    rows, length, dimensions, along = cast("list[int]", sizes)
    filled, longest, square = (min(1.0, float(share)) for share in cast("list[float]", shares))
    is_declared = values.get("by") is not None
    return (kind, dimensions, along), _Look(rows, length, filled, longest, square, is_declared)
