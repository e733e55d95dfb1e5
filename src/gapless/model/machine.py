"""The machine's constants: what a launch, a copy, a product, a read takes here, as measured.

``None`` is what could not be measured; ``why`` says so. How each was measured, and what ``at``
counts, is in ``Constants.methods``.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

SCHEMA: Final = 1  # of these values as JSON


class Constant(Struct, frozen=True):
    """A constant: the median of rounds, with their 10th and 90th percentiles."""

    name: str  # "copy.h2d.pinned"
    unit: str  # "ns", "B/s", "FLOP/s"
    at: int | None  # bytes, threads: what it was measured at, where it depends on that
    value: float | None
    low: float | None
    high: float | None
    times: int  # rounds that count
    spent_s: float
    note: str | None = None  # sizes that were chosen
    why: str | None = None  # there is no value


class Gpu(Struct, frozen=True):
    """The GPU that was asked for, as its driver describes it."""

    name: str | None = None
    uuid: str | None = None
    driver: str | None = None
    free_bytes: int | None = None  # before anything of the probe's was on it
    busy_percent: int | None = None  # of the time just before
    why: str | None = None  # it was not used


class Platform(Struct, frozen=True):
    """Where constants hold: the interpreter, the machine, the storage."""

    executable: str
    python: str
    torch: str | None
    processor: str
    processors: int  # that the process may use
    storage: str | None = None  # file system and source, of the data's path
    gpu: Gpu | None = None  # None: none was asked for
    load: float | None = None  # threads that ran or wanted to, over the minute before


class Constants(Struct, frozen=True):
    """All that were asked for."""

    place: Platform | None  # None: nothing could be asked
    values: tuple[Constant, ...]
    parts: tuple[str, ...]  # that were measured, or tried
    measured_unix_s: float
    took_s: float
    methods: Mapping[str, str] = field(default_factory=dict[str, str])  # by constant's name
    notes: tuple[str, ...] = ()  # a busy machine, a part without an end
    why: str | None = None  # it did not come to its end
    whole: bool = True  # it ended, and nothing was left out for want of time
    schema: int = SCHEMA
    alone: bool = True  # nobody else was seen to use the machine

    def find(self, name: str, size: int | None = None) -> Constant | None:
        """Return a constant; ``None`` if it was not asked for, or not at that size."""
        return next(
            (constant for constant in self.values if constant.name == name and constant.at == size),
            None,
        )

    def value(self, name: str, size: int | None = None) -> float | None:
        """Return a constant's value, in its unit; ``None`` if there is none."""
        constant = self.find(name, size)
        return None if constant is None else constant.value

    def series(self, name: str) -> tuple[tuple[int, float], ...]:
        """Return a constant by size or threads, from small to large, where it was measured."""
        return tuple(
            sorted(
                (constant.at, constant.value)
                for constant in self.values
                if constant.name == name and constant.at is not None and constant.value is not None
            )
        )

    def age_s(self, now_unix_s: float) -> float:
        """Return how long ago they were measured."""
        return max(0.0, now_unix_s - self.measured_unix_s)
