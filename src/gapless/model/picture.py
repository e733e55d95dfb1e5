"""What a page draws: the pieces and events of one capture as columns, and the steps of a run.

Only made where it is asked for (``Options.pictured``): it is large, and no number comes from it.
"""

from enum import StrEnum

from msgspec import Struct

from gapless.model.trace import Int8, Int32, Int64


class StripKind(StrEnum):
    """What a strip shows."""

    ACCOUNT = "account"  # the pieces of the ledger
    THREAD = "thread"
    STREAM = "stream"
    WORKER = "worker"  # a worker of a loader, or the thread that pins


class Strip(Struct, frozen=True):
    """One strip of the picture: bars, by start. Times are ns from the start of the picture."""

    title: str
    kind: StripKind
    start: Int64
    end: Int64
    name: Int32  # → Picture.names; −1: there is no event
    leaf: Int8  # → model.leaf.LEAVES; −1: none, as of events of the host
    group: Int8  # → model.leaf.GROUPS; −1 likewise
    depth: Int8  # of nested events


class StepSpan(Struct, frozen=True):
    """A step in the picture: its number, and its time from the start of the picture, in ns."""

    number: int
    start: int
    end: int


class Picture(Struct, frozen=True):
    """One capture (of several the first): its ledger, threads and streams, in one stretch."""

    path: str  # of the trace
    rank: int | None
    start_ns: int  # on Kineto's clock
    length_ns: int
    names: tuple[str, ...]
    strips: tuple[Strip, ...]
    steps: tuple[StepSpan, ...]
    left_out_steps: int  # counted steps that are not drawn: there would be too many bars
    run_offset_ns: int | None = None  # from the start of the command; None: it is not known


class Forecast(Struct, frozen=True):
    """A step of a window as it is, and with a fix, both as replayed: less what tracing cost."""

    fix: str  # its name
    before: Picture
    after: Picture
    by_queue: bool  # waits for data are as long as the loader's queue predicts, at the same places


class Pace(Struct, frozen=True):
    """The steps of one rank over the run, one by one, on the axis of the sampled series."""

    span_ns: int  # from the start of the command to its end
    ends_ns: Int64  # of the steps, from the start of the command
    lengths_ns: Int64
    profiled: Int8  # 1: under a profiler
