"""A ratio that is not known exactly."""

from dataclasses import dataclass
from typing import Final

SIGMA: Final = 1.645  # standard deviations from the middle to the ends of 90 %


@dataclass(frozen=True)
class Estimate:
    """A ratio and its interval: of 95 % where it was measured, of 90 % where it is predicted."""

    low: float
    mid: float
    high: float
