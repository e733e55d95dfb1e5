"""What the machine does meanwhile, seen from outside the training. One file a source.

A sampler is a function from the time (ns) to values by name. It is made by ``open_sampler``, which
raises ``AbsentError`` where there is nothing to read; what fails later is noted and given up.
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct, field

Values = dict[str, float]
Sampler = Callable[[int], Mapping[str, float]]
_S: Final = 10**9


class AbsentError(Exception):
    """A machine without such a source of figures."""


class Growth(Struct):
    """How fast counters grow; a counter's first reading says nothing yet."""

    _readings: dict[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])

    def rate(self, name: str, now: int, value: float) -> float | None:
        """Return how much a counter grew a second since its last reading."""
        previous = self._readings.get(name)
        self._readings[name] = (now, value)
        if (
            previous is None or now <= previous[0] or value < previous[1]
        ):  # a counter that was reset
            return None
        return (value - previous[1]) / (now - previous[0]) * _S

    def keep_only(self, names: set[str]) -> None:
        """Forget the counters that are not among these."""
        self._readings = {
            name: reading for name, reading in self._readings.items() if name in names
        }


def keep_observed(values: Mapping[str, float | None]) -> Values:
    """Return the values that were observed, with as many digits as they are worth."""
    return {name: round_value(value) for name, value in values.items() if value is not None}


def round_value(value: float) -> float:
    """Return a value with at most three decimals; a whole number without any."""
    return int(value) if value == int(value) or abs(value) >= 10_000 else round(value, 3)  # noqa: PLR2004
