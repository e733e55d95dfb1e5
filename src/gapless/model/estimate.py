"""A ratio that is not known exactly, and the chances that such ratios rest on."""

from math import comb
from typing import Final

from msgspec import Struct

SIGMA: Final = 1.645  # standard deviations from the middle to the ends of 90 %


class Estimate(Struct, frozen=True):
    """A ratio and its interval: of 95 % where it was measured, of 90 % where it is predicted."""

    low: float
    mid: float
    high: float


def binomial_chances(count: int, share: float) -> list[float]:
    """Return the probabilities of 0, 1 … of so many, each of which has the chance ``share``."""
    return [comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(count + 1)]
