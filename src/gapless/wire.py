"""The record layout: what the recorder writes and the store reads.

The only file that ``payload``, ``probe`` and ``store`` share: standard library, Python 3.9. A log
is a sequence of frames, each appended by one ``os.write``; a reader stops at the last whole one.
A frame is ``HEADER`` (magic, kind, version, length, CRC-32 of the body) and a body: packed records
of one size, or JSON. Times are nanoseconds on CLOCK_MONOTONIC, the same for all processes of a
host, unless a name says otherwise. −1 in a record means that it was not observed.
"""

import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

VERSION = 1
MAGIC = b"GL"
HEADER = struct.Struct("<2sBBII")
# As torch's profiler registers itself in sys.monitoring: it is on in windows of the recorder's.
TORCHS_TOOL = "PyTorch Profiler"
MAX_BODY_BYTES = 64 << 20  # bytes of a body; more is no frame, but rubbish

# ── Kinds of frames ─────────────────────────────────────────────────────────────────────────────
PROCESS, MARKS, BATCHES, FACT, UNOBSERVED, STACKS, WINDOW, FILES, COUNTERS, SAMPLE, END = range(
    1, 12
)
MARK_SUMS, BATCH_SUMS = 12, 13
TRIAL = 14
HOSTS = 15
FRAMES = {
    PROCESS: "process",  # first of a log: who writes; again when another process goes on in it
    MARKS: "marks",
    BATCHES: "batches",
    FACT: "fact",
    UNOBSERVED: "unseen",  # what could not be observed, and why
    STACKS: "stacks",  # sampled Python stacks, counted
    WINDOW: "window",  # a window of torch.profiler
    FILES: "files",  # paths opened by fetches, paths written
    COUNTERS: "counters",  # of the allocator
    SAMPLE: "sample",  # of the launcher's samplers
    END: "end",  # the process ended in good order
    MARK_SUMS: "mark sums",  # of a stretch whose marks are too many to keep
    BATCH_SUMS: "batch sums",  # likewise
    TRIAL: "trial",  # what a trial's arm observed: losses, what was trained on
    HOSTS: "hosts",  # other machines that the run has connections to, since the last such frame
}
MAX_FRAMES = 100  # of a sampled stack, from the innermost
PACKED = (MARKS, BATCHES, MARK_SUMS, BATCH_SUMS)

# ── Marks: what happened on a thread of the training process ────────────────────────────────────
MARK = struct.Struct("<HHIqqqq")  # kind, flags, subject, thread, start, end, value
MARK_FIELDS = ("kind", "flags", "subject", "thread", "start", "end", "value")
(
    STEP,  # optimizer.step(); subject: optimizer; value: how many calls before
    NEXT,  # next(loader); subject: loader; value: position of the batch in its iteration
    ITER,  # iter(loader); subject: loader; value: how many before
    DISPATCH,  # indices given to a worker; subject: loader; value: position << 16 | worker
    CLOSE,  # workers shut down; subject: loader
    PIN,  # a batch pinned, on the pinning thread
    COLLECTOR,  # a garbage collection; value: generation
    CHECKPOINT,  # torch.save and the like; subject: site
    LOGGING,  # SummaryWriter, wandb, mlflow; subject: site
    MODE,  # model.train() or .eval(), a point; subject: model; value: 1 train, 0 eval
    SYNC,  # a synchronising call that Python can see; subject: site
    DEVICE_STEP,  # value: ns on the device between this step's end and the one before
    OBSERVER,  # our own work; value: OBSERVER_*
    USER_PROFILER,  # the user's own profiler is on
    DEVICE_EDGE,  # a point, where a step ended; value: ns on the device since the first such mark
    BACKWARD,  # a backward pass, while none of the optimizers ends the steps; subject: site
    FORWARD,  # of an outermost module, while nothing trains; subject: module
    USER_STEP,  # gapless.step(), a point; subject: site
    PROFILING,  # the user's own profiler starts, stops, or writes what it saw; subject: site
    SAMPLER,  # the indices of a batch were chosen, and that took long; subject: loader
    SWITCH,  # edits are switched at a step's end; subject: the side, 0: unedited; value: SWITCH_*
) = range(21)
MARKS_NAMES = (
    "step",
    "next",
    "iter",
    "dispatch",
    "close",
    "pin",
    "collector",
    "checkpoint",
    "logging",
    "mode",
    "sync",
    "device-step",
    "observer",
    "user-profiler",
    "device-edge",
    "backward",
    "forward",
    "user-step",
    "profiling",
    "sampler",
    "switch",
)
# Failed: it could not be made; not finite: the loss before it; last: no block follows; settled: the
# steps of the block count from here.
SWITCH_MADE, SWITCH_FAILED, SWITCH_NOT_FINITE, SWITCH_LAST, SWITCH_SETTLED = range(5)
EXHAUSTED = 1  # flag of NEXT: it raised StopIteration
RAISED = 2  # flag of any mark: the call raised
NOT_MAIN = 4  # flag of any mark: not on the thread that steps
OBSERVER_FLUSH, OBSERVER_WINDOW, OBSERVER_SAVED = 0, 1, 2  # saved: after a window
OBSERVER_TURN = 3  # another process had its turn (``payload.trial.turns``)
NOBODY = 0xFFFFFFFF  # subject: unknown
# Calls after which an optimizer, a loader … ends steps: fewer may be of a preparation.
MIN_ENDING_CALLS = 5
# Where a step of an optimizer lasts so long and holds so many backward passes of one line, each
# of these ends a step: the recorder, the study and whoever waits outside decide alike.
LONG_STEP_NS = 3_000_000_000
MIN_PASSES = 4

# ── Batches: one fetch, in a worker or in the training process ──────────────────────────────────
STAGES = ("read", "decode", "augment", "tokenise", "collate", "other")
BATCH_FIELDS = (
    "loader",
    "worker",  # −1: fetched in the training process
    "sequence",  # how many fetches of this iteration before, in this process
    "samples",
    "start",
    "end",
    "cpu",  # ns of this thread on a processor
    "run_queue",  # ns that it was ready and waited for one (schedstat)
    "minor_faults",
    "major_faults",
    "bytes_read",  # asked for by read calls (rchar)
    "bytes_from_disk",
    "random",  # 1: the fetch advanced a random generator, 0: it did not, −1: not looked
    "detailed",  # 1: stages were measured
    *(stage + suffix for stage in STAGES for suffix in ("_wall", "_cpu")),
)
BATCH = struct.Struct(f"<{len(BATCH_FIELDS)}q")

# ── Sums: what a stretch held whose marks and fetches were too many to keep one by one ───────────
# Stretches of a process follow one another: each mark and each fetch is either kept or in one sum.
MARK_SUM_FIELDS = (
    "kind",
    "flags",
    "subject",
    "thread",
    "start",  # of the stretch: the end of the last mark before it
    "end",  # of the stretch: the end of its last mark
    "count",
    "total",  # ns in these marks, less those that lie inside them on their thread
    "longest",  # ns of the longest, all that lies inside included
    "value",  # sum of the values, where they are durations (DEVICE_STEP); else -1
)
MARK_SUM = struct.Struct("<HHIqqqqqqq")
SUMMED_FIELDS = BATCH_FIELDS[6:12]  # cpu … bytes_from_disk
BATCH_SUM_FIELDS = (
    "loader",
    "worker",
    "start",  # of the first fetch
    "end",  # of the last
    "count",
    "samples",
    "wall",
    *SUMMED_FIELDS,  # -1: of some not observed
    "random",  # how many advanced a random generator
    "looked",  # of how many
    "detailed",  # in how many stages were measured; the sums below are theirs
    *BATCH_FIELDS[14:],
    "detailed_wall",
    "detailed_samples",
)
BATCH_SUM = struct.Struct(f"<{len(BATCH_SUM_FIELDS)}q")
RECORDS = {MARKS: MARK, BATCHES: BATCH, MARK_SUMS: MARK_SUM, BATCH_SUMS: BATCH_SUM}

MANIFEST = "run.json"  # in the folder of a run

# ── Environment ─────────────────────────────────────────────────────────────────────────────────
SPOOL = "GAPLESS_SPOOL"  # the folder that processes write into
OPTIONS = "GAPLESS_OPTIONS"  # JSON
LOADER = "GAPLESS_LOADER"  # which loader a spawned worker belongs to
ASKED = "plan/asked"  # in the spool: a file, "NS STEP", by which somebody asks for a window
LEAD = "GAPLESS_LEAD"  # the process that a trial's arm was started as
TURN_OVER, TURN_BEGINS = "turn-over", "turn-begins"  # pipes in the spool of an arm that has turns
DATA_RESULT, DATA_PROGRESS = "data.json", "data-progress"  # in the spool of `gapless data`'s arm
EXPORT_FOLDER = "export"  # likewise, of `gapless export`: what it wrote


class Frame(NamedTuple):
    """One whole frame of a log."""

    kind: int
    body: bytes

    def text(self) -> dict[str, Any]:
        """Return the JSON object of a frame that is not packed."""
        return json.loads(self.body)


def frame(kind: int, body: bytes) -> bytes:
    """Return the bytes of a frame."""
    return HEADER.pack(MAGIC, kind, VERSION, len(body), zlib.crc32(body)) + body


def text_frame(kind: int, value: dict[str, Any]) -> bytes:
    """Return the bytes of a frame of JSON; what JSON does not know is written as its ``repr``."""
    return frame(kind, json.dumps(value, default=repr, separators=(",", ":")).encode())


class NewerError(Exception):
    """A log written by a later version of gapless."""


def frames(log: bytes) -> tuple[list[Frame], int]:
    """Return the whole frames at the start of a log, and the bytes that they take.

    What follows the last whole frame is being written, or was cut by a kill. Raises ``NewerError``.
    """
    whole_frames: list[Frame] = []
    size = 0
    for next_frame, end in _walk(log):
        whole_frames.append(next_frame)
        size = end
    return whole_frames, size


def _walk(log: bytes) -> Iterator[tuple[Frame, int]]:
    offset = 0
    while offset + HEADER.size <= len(log):
        magic, kind, version, length, check = HEADER.unpack_from(log, offset)
        if magic == MAGIC and version > VERSION:
            raise NewerError(version, VERSION)
        end = offset + HEADER.size + length
        if magic != MAGIC or length > MAX_BODY_BYTES or end > len(log):
            return
        body = log[offset + HEADER.size : end]
        if zlib.crc32(body) != check:
            return
        yield Frame(kind, body), end
        offset = end
