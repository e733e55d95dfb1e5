"""What-ifs: changes of a run that ``replay`` can play through, as data.

A rule names the changes that would remove its cause, a fix those that it would bring. They select
what they change by what a study knows of it (leaves, names, lines), never by event numbers, so that
they mean the same in each window and rank. Factors multiply a time: 0 removes it. They are kept
with finished studies, where a tag distinguishes kinds.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from gapless.model.edit import Location
from gapless.model.estimate import Estimate

ZERO_FACTOR = Estimate(0.0, 0.0, 0.0)


class Drop(msgspec.Struct, frozen=True, tag="drop", tag_field="kind"):
    """What the training thread does under some leaves goes, with what it launches and waits for.

    ``leaves`` are prefixes of ``model.leaf`` ("idle.io_main.checkpoint", "idle.gc", "idle.sync");
    ``keep``: the share that stays (one checkpoint in ten: 0.1).
    """

    leaves: tuple[str, ...]
    keep: float = 0.0


class Omit(msgspec.Struct, frozen=True, tag="omit", tag_field="kind"):
    """Calls go: frames whose name matches a pattern (as ``fnmatch``), with all inside them.

    Host time, launches *with their activities*, syncs and copies inside go with them: an edit
    removes subtrees, not single frames. ``line``: only below that line of the user's, where stacks
    were recorded. ``keep``: the share of the calls that stays.
    """

    names: tuple[str, ...]  # "aten::item", "torch.cuda.synchronize", "cudaStreamSynchronize"
    line: Location | None = None
    keep: float = 0.0


class Scale(msgspec.Struct, frozen=True, tag="scale", tag_field="kind"):
    """Activities of a device take another time: those of some busy or copy leaves, or by name.

    An activity is meant if its leaf begins with one of ``leaves`` or its name matches one of
    ``names``. The factor is what is not known: its bounds enter those of the prediction.
    """

    factor: Estimate
    leaves: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


class Merge(msgspec.Struct, frozen=True, tag="merge", tag_field="kind"):
    """Many launches become few: inside frames of these names, so many launches for each frame.

    Host time and launches inside shrink in proportion; the device time inside is multiplied by
    ``device``, for kernels that read memory once instead of many times.
    """

    names: tuple[str, ...]  # "Optimizer.step#*"
    launches: int
    device: Estimate = Estimate(0.5, 0.8, 1.0)


class HostChange(msgspec.Struct, frozen=True, tag="hosted", tag_field="kind"):
    """Host time of some leaves takes another time; what is launched there stays."""

    leaves: tuple[str, ...]  # "idle.host.python", "idle.launch.api"
    factor: Estimate
    sampled: bool = False  # known from samples of un-profiled steps: no profiler inflates it


class CopyChange(msgspec.Struct, frozen=True, tag="copied", tag_field="kind"):
    """Copies to the device: from pinned memory, not waited for, on their own stream a batch ahead.

    Three things, not one; a fix says which of them it brings. What is copied from pinned memory
    already stays as it is if a change is ``of_pageable`` copies.
    """

    pinned: bool = False
    non_blocking: bool = False
    ahead: bool = False
    of_pageable: bool = False


NO_LOADER: Final = -1  # in place of a loader's number: threads of a training that none feeds


class LoaderChange(msgspec.Struct, frozen=True, tag="feed", tag_field="kind"):
    """A loader with other settings; ``None``: as it is.

    ``stages``: factors of the stages of a fetch ("decode": 0.5; "blocked": of its waits off the
    processor, in whatever stage), ``wait``: False: one batch is there at once, again and again;
    nobody makes another, or hands it over.
    """

    loader: int  # facts.Loader.id
    num_workers: int | None = None
    prefetch_factor: int | None = None
    in_order: bool | None = None
    persistent_workers: bool | None = None
    intra_op_threads: int | None = None  # of the training process
    worker_threads: int | None = None
    stages: Mapping[str, float] = msgspec.field(default_factory=dict[str, float])
    wait: bool = True  # False: the loader is never waited for
    pin_memory: bool | None = None  # the thread that pins batches; for copies: ``CopyChange``
    delay_ns: int | None = None  # each fetch takes so much longer, off a processor
    freed_ns: int | None = None  # of the training thread's own time, for each batch


class Delay(msgspec.Struct, frozen=True, tag="delay", tag_field="kind"):
    """The training thread takes so much longer each step, once its optimizer has stepped.

    No fix: what is injected to see whether a replay holds (``benchmarks.check_prediction``).
    """

    ns: int


class Bucket(msgspec.Struct, frozen=True, tag="bucket", tag_field="kind"):
    """Gradients are reduced in buckets, each as soon as the backward pass has the last of it.

    A bucket is full once it holds ``cap_bytes``, the first one ``first_bytes``. ``latency``: the
    share of what exchanges take now that each call takes, whatever its size, where sizes are too
    alike to tell; ``slowdown``: how much longer computing takes for what it hides of exchanges.
    """

    cap_bytes: int
    first_bytes: int
    latency: Estimate
    slowdown: Estimate


Change = Drop | Omit | Scale | Merge | HostChange | CopyChange | LoaderChange | Delay | Bucket


class Prediction(Struct, frozen=True):
    """What a change would give: the speed-up of an un-profiled step, and how it is known.

    ``refused``: why nothing is predicted; then ``speedup`` is ``None``. ``calibrated``: the
    interval was widened by residuals of at least 20 measured cases of its family. ``at_most``: what
    removing a cause as a whole would give, where what its remedies do has to be tried.
    ``by_explanation``: the speed-up by each explanation of how far windows are off plain steps,
    where there are two.
    """

    speedup: Estimate | None
    family: str  # "feed", "sync", "host", "copy", "kernel", "tail"
    calibrated: bool = False
    refused: str | None = None
    notes: tuple[str, ...] = ()
    at_most: Estimate | None = None
    floor: float | None = None  # a speed-up that follows from what processors do: none is below it
    by_explanation: tuple[Estimate, ...] = ()
