"""A ratio that is not known exactly."""

from typing import Final

from msgspec import Struct

SIGMA: Final = 1.645  # standard deviations from the middle to the ends of 90 %


class Estimate(Struct, frozen=True):
    """A ratio and its interval: of 95 % where it was measured, of 90 % where it is predicted."""

    low: float
    mid: float
    high: float
