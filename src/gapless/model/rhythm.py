"""What comes now and then in a run, its phases, and which steps are of another kind."""

from msgspec import Struct


class Sighting(Struct, frozen=True):
    """How often something that is done now and then was seen between steps of a run."""

    count: int
    each_ns: int  # the mean of what one took
    period: float | None  # steps from one to the next; None: two whole periods were not seen
    at_start: bool  # the only one was seen before the second step

    @property
    def times(self) -> str:
        """Return in words how often it was seen."""
        return {1: "once", 2: "twice"}.get(self.count, f"{self.count} times")


class Phase(Struct, frozen=True):
    """Steps that one thing ends, where others end the steps before or after: of one rank."""

    anchor: str  # what ends its steps: "SGD.step, train.py:41"
    count: int
    wall_ns: int  # from the phase before, or its own first step on, to its last one
    median_ns: int | None  # of its un-profiled steps; None: none was noted by itself


class UnlikeSteps(Struct, frozen=True):
    """Steps of a run that are like none in its windows: shares of all, and the mean of them."""

    steps: float
    time: float  # without what marks show
    mean_ns: int  # likewise


class LongSteps(Struct, frozen=True):
    """Steps that come regularly and last far longer than those between them: of one rank."""

    count: int
    period: int  # steps from one to the next
    excess_ns: int  # the mean of what one takes more than the others, waits and lumps aside
    usual_ns: int  # the mean of the others, likewise
