"""A ratio that is not known exactly."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """A ratio and its interval: of 95 % where it was measured, of 90 % where it is predicted."""

    low: float
    mid: float
    high: float
