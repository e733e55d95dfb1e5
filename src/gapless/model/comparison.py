"""The difference of two studies: what B has more of, or less, than A."""

from collections.abc import Mapping

from msgspec import Struct, field

from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.study import RunInfo, StudyHealth


class ComparedStudy(Struct, frozen=True):
    """One of the two studies, reduced to what the comparison needs."""

    run: RunInfo
    health: StudyHealth
    rows: int  # counted rows: what "a step" was divided by
    wall_ns: int
    step_ns: int  # wall time of a mean row
    median_ns: int | None  # of the step times
    is_run: bool = False  # recorded by gapless: its steps are un-profiled


class ChargeDelta(Struct, frozen=True):
    """One leaf or group: nanoseconds a step; the differences sum to that of the step."""

    name: str
    a_ns: int
    b_ns: int

    @property
    def delta_ns(self) -> int:
        """Return what B has more (or, negative, less)."""
        return self.b_ns - self.a_ns


class OperationDelta(Struct, frozen=True):
    """An operator or kernel of A, B or both, a step; ``None`` where one has it not."""

    name: str
    detail: str | None  # the input shapes of an operator, the launch geometry of a kernel
    a_calls: float | None
    b_calls: float | None
    a_ns: float | None
    b_ns: float | None

    @property
    def status(self) -> str:
        """Return whether it was "added", "removed", or is in both: "changed" or "same"."""
        if self.a_calls is None:
            return "added"
        if self.b_calls is None:
            return "removed"
        return "same" if (self.a_calls, self.a_ns) == (self.b_calls, self.b_ns) else "changed"

    @property
    def delta_ns(self) -> float:
        """Return the nanoseconds a step that B has more (or, negative, less)."""
        return (self.b_ns or 0.0) - (self.a_ns or 0.0)


class FactDelta(Struct, frozen=True):
    """A setting, or another fact, that differs between two runs; ``None``: not known there."""

    subject: str  # "loader", "optimizer", "machine", "precision" …
    name: str  # "num_workers"
    a: str | None
    b: str | None
    location: Location | None = None  # of the subject, in B if it is there


class CauseDelta(Struct, frozen=True):
    """A cause that was named in either of two runs, and its price there (a speed-up)."""

    code: str
    name: str
    location: Location | None
    a: float | None  # None: not named, or without a price
    b: float | None
    in_a: bool
    in_b: bool

    @property
    def status(self) -> str:
        """Return whether it is "gone", "new", or "stays"."""
        if self.in_a and self.in_b:
            return "stays"
        return "gone" if self.in_a else "new"


class Comparison(Struct, frozen=True):
    """Two studies side by side. ``groups`` and ``leaves`` sum to the ``step_ns`` of each."""

    a: ComparedStudy
    b: ComparedStudy
    per_step: bool  # False: a capture without steps is compared as a whole
    groups: tuple[ChargeDelta, ...]
    leaves: tuple[ChargeDelta, ...]
    operators: tuple[OperationDelta, ...]  # host self time
    kernels: tuple[OperationDelta, ...]  # device time
    notes: tuple[str, ...] = ()  # why the two are not quite alike
    # Of two recorded runs:
    speedup: Estimate | None = None  # of B over A, by un-profiled steps; 90 %; None: not of runs
    facts: tuple[FactDelta, ...] = ()
    causes: tuple[CauseDelta, ...] = ()
    # By group that changed considerably: the changed facts that move it; none: not explained.
    explained: Mapping[str, tuple[FactDelta, ...]] = field(
        default_factory=dict[str, tuple[FactDelta, ...]]
    )
