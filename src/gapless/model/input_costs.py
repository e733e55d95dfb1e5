"""What making batches costs, measured on the samples of a training, and what else would cost."""

from msgspec import Struct

from gapless.model.edit import Location
from gapless.model.estimate import Estimate


class PixelDifference(Struct, frozen=True):
    """How far pixels are off the present ones, in steps of 1/255: the largest, and the mean."""

    largest: float
    mean: float


class StageCost(Struct, frozen=True):
    """One stage as it is (``is_now``), or another way to do it; ``None``: not measured.

    A way that was not measured has its reason (``why``) in place of figures; batches by length have
    only a step.
    """

    stage: str  # "read", "decode", "augment", "tokenise", "rest", "collate", "hand-over", …
    way: str  # "now", or the name of another way
    is_now: bool
    sample_ns: Estimate | None = None  # for each sample; 95 %
    speedup: Estimate | None = None  # of the stage, over the same rounds as it is now
    step_ns: Estimate | None = None  # of the run, as it would be by the loader's replay; 90 %
    step_speedup: Estimate | None = None
    pixels: PixelDifference | None = None
    rounds: int = 0
    why: str | None = None
    fix: str | None = None  # that does it in this run, for ``gapless try --fix``
    is_risky: bool = False  # that fix changes results, and is tried with ``--risky``


class StorageSpeed(Struct, frozen=True):
    """How fast the data set's own files are read, whatever the data set does."""

    state: str  # "cold", "warm", "ordered"
    readers: int
    bytes_per_s: float | None
    files_per_s: float | None
    why: str | None = None


class InputSubject(Struct, frozen=True):
    """The loader that was measured; ``None``: not known."""

    location: Location | None
    dataset: str | None
    length: int | None  # of the data set
    batch_size: int | None
    num_workers: int
    collate: str | None
    library: str | None  # that decodes JPEG files
    batch_bytes: int | None
    batch_parts: tuple[str, ...] = ()  # "float32 64×3×224×224"


class InputCosts(Struct, frozen=True):
    """The whole of it.

    ``failed``: why nothing, or not all, could be measured; ``is_complete``: nobody and nothing
    ended it before.
    """

    command: tuple[str, ...]
    run: str | None  # the recorded run that steps are replayed from
    subject: InputSubject | None
    samples: int
    costs: tuple[StageCost, ...]
    storage: tuple[StorageSpeed, ...]
    files: int
    run_step_ns: float | None  # a step of the run
    step_note: str | None  # why no step is foretold
    notes: tuple[str, ...]
    is_complete: bool
    failed: str | None = None

    def find(self, stage: str) -> StageCost | None:
        """Return a stage as it is now; ``None``: it was not measured."""
        return next(
            (
                cost
                for cost in self.costs
                if cost.is_now and cost.stage == stage and cost.sample_ns is not None
            ),
            None,
        )
