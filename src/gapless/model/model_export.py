"""A model exported for use elsewhere: what it is, what was written, how near, how fast."""

from msgspec import Struct

from gapless.model.edit import Location
from gapless.model.estimate import Estimate


class ModelInput(Struct, frozen=True):
    """One input of the model; one that is no tensor has its value alone."""

    name: str
    dtype: str | None = None
    shape: tuple[int, ...] = ()
    varied: tuple[int, ...] = ()  # dimensions that were not the same in all forwards
    free: tuple[int, ...] = ()  # dimensions that may have another size in what was exported
    value: str | None = None


class ModelSubject(Struct, frozen=True):
    """The model that was caught, and how."""

    name: str  # its class
    location: Location | None
    parameters: int
    dtype: str | None
    device: str | None
    autocast: str | None  # its format, where the forward had autocast on
    inputs: tuple[ModelInput, ...]
    batch: int | None  # of the forward that was caught; None: none of its dimensions is one
    batch_lack: str | None  # why
    forwards: int  # that were seen
    weights: str  # whose they are
    was_training: bool  # it was caught in training, and set to evaluate
    is_steady: bool  # the same input gives the same output


class OutputDifference(Struct, frozen=True):
    """How far the worst output is off the model's own; ``None``: not comparable, ``why`` says it.

    ``share`` of the largest value of that output, as is the tolerance.
    """

    is_within: bool
    batch: str
    output: str | None
    dtype: str | None = None
    share: float | None = None
    tolerance: float | None = None
    position: tuple[int, ...] = ()
    own_value: float | None = None
    other_value: float | None = None
    why: str | None = None


class ExportFailure(Struct, frozen=True):
    """Why a format refused the model: the line, what stands there, what helps."""

    error: str
    construct: str | None
    help: str | None
    location: Location | None
    source: str | None  # the line's text


class WayCost(Struct, frozen=True):
    """What a call costs one way at one batch size; ``None``: not known, ``why`` says it.

    ``p99_ns`` is not known of fewer than a hundred calls.
    """

    batch: str
    p50_ns: float | None = None
    p99_ns: float | None = None
    rows_per_s: float | None = None
    speedup: Estimate | None = None  # over the model itself, same batch size; 95 %
    calls: int = 0
    rounds: int = 0
    why: str | None = None


class ModelWay(Struct, frozen=True):
    """One way to run the model: itself, compiled, or as a format."""

    name: str
    files: tuple[tuple[str, int], ...]  # what was written: name, bytes
    costs: tuple[WayCost, ...]
    made_s: float | None = None  # to export it and read it again
    first_call_s: float | None = None
    memory: int | None = None  # bytes that making it and its first call took
    parity: OutputDifference | None = None
    failure: ExportFailure | None = None
    why: str | None = None  # there is none


class ModelExport(Struct, frozen=True):
    """The whole of it. ``failed``: why nothing could be exported."""

    command: tuple[str, ...]
    run: str | None
    folder: str | None  # where the files are; None: none was written
    subject: ModelSubject | None
    ways: tuple[ModelWay, ...]
    processor: str | None
    torch: str | None
    threads: int | None
    notes: tuple[str, ...]
    is_complete: bool
    failed: str | None = None
