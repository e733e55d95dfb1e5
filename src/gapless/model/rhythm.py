"""What comes now and then in a run, and which of its steps are of another kind."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sighting:
    """How often something that is done now and then was seen between steps of a run."""

    count: int
    each_ns: int  # the mean of what one took
    period: float | None  # steps from one to the next; None: two whole periods were not seen
    at_start: bool  # the only one was seen before the second step


@dataclass(frozen=True)
class Unlike:
    """Steps of a run that are like none in its windows: shares of all, and the mean of them."""

    steps: float
    time: float  # without what marks tell of
    mean_ns: int  # likewise
