"""What a loader was seen to cost, batch by batch, and what is uncertain about another's costs.

``recorded.loaders.whatif_inputs`` fills ``LoaderInputs`` from a recording. A fetch is split into
what ran on a processor, what waited for one, and what was blocked: only the last does not depend on
how many others run. Rows stay in order, and a resample takes blocks of them: slow samples come in
clusters, and the same batch is slow in the unchanged replay and in the changed one.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field
from msgspec.structs import asdict

from gapless.model.estimate import Estimate
from gapless.model.facts import Loader, Machine
from gapless.model.machine import Constants
from gapless.model.trace import Int64

Shares = Mapping[str, tuple[float, float]]
_MIN_BLOCK: Final = 10  # rows of a block, at least
_MAX_ROWS: Final = 300  # rows that are simulated
_MS: Final = 1e6
_MB: Final = 1 << 20
_ANY_SHARE: Final = Estimate(0.0, 0.5, 1.0)
SAMPLER: Final = "sampler"  # as a stage: the training thread chooses samples, in any case
BLOCKED: Final = "blocked"  # as a stage: all time off processors, whatever stage it is of

# ns where a run had no workers; the middle and the outer tenths of what was seen on other machines.
# A tensor is handed over as a file descriptor, for which its worker's own process is asked.
HAND_OVER: Final = Estimate(0.15 * _MS, 0.9 * _MS, 2.5 * _MS)
TENSOR: Final = Estimate(0.03 * _MS, 0.2 * _MS, 0.6 * _MS)
TRANSIT: Final = Estimate(0.05 * _MS, 0.3 * _MS, 1.0 * _MS)
TOUCH: Final = Estimate(0.02 * _MS / _MB, 0.06 * _MS / _MB, 0.2 * _MS / _MB)  # a byte, when taken
SHARED: Final = Estimate(0.05 * _MS / _MB, 0.3 * _MS / _MB, 1.4 * _MS / _MB)  # a byte, when made
FORK: Final = Estimate(3 * _MS, 10 * _MS, 40 * _MS)
BEGIN: Final = Estimate(2 * _MS, 8 * _MS, 30 * _MS)
CLOSE: Final = Estimate(1 * _MS, 5 * _MS, 50 * _MS)
RESET: Final = Estimate(0.2 * _MS, 1 * _MS, 4 * _MS)
PINNED: Final = Estimate(0.08 * _MS / _MB, 0.2 * _MS / _MB, 0.6 * _MS / _MB)  # a byte


class BatchRows(Struct, frozen=True):
    """The hand-overs of a loader outside of windows, in order, in ns; −1: not known."""

    host: Int64  # from the hand-over before to the request, without ``turn``
    turn: Int64  # of iterations that ended and began in between; 0: none
    wait: Int64  # from the request to the hand-over
    on: Int64  # of the fetch of this batch: on a processor
    queue: Int64  # ready, and waiting for one
    off: Int64  # blocked
    position: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))  # in its iteration

    def __len__(self) -> int:
        """Count the hand-overs."""
        return len(self.wait)

    def take(self, rows: Int64) -> "BatchRows":
        """Select hand-overs."""
        columns = asdict(self).items()
        return BatchRows(
            **{name: column[rows] if len(column) else column for name, column in columns}
        )

    def step(self) -> float:
        """Return the mean time of a batch."""
        return float((self.host + self.turn + self.wait).mean())


class Turns(Struct, frozen=True):
    """What iterations cost in the mean, in ns; ``None``: not seen."""

    batches: int | None = None  # of an iteration; None: no turn was seen
    begin: int | None = None  # iter(loader)
    close: int | None = None  # the end of workers
    first_fetch: int | None = None  # from the end of iter(loader) to a worker's first fetch


class LoaderInputs(Struct, frozen=True):
    """The inputs for the replay of one loader."""

    loader: Loader
    machine: Machine
    rows: BatchRows
    local_ranks: int = 1
    other_cpus: float = 0.0  # processors of the host that were not ours
    on_device: bool = False
    device_ns: float | None = None  # how long a device works for each batch; None: not known
    hand: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))  # of batches that were ready
    dispatch: int = 0  # of a hand-over: the next indices are drawn and given out
    sampler: int = 0  # of a wait: samples are chosen, mean, where that takes long
    transit: int | None = None  # from the end of a fetch, where the training waited for it
    pin: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    turns: Turns = Turns()
    samples: float | None = None  # of a batch
    tensors: int | None = None  # in a batch
    # Of each stage: its share of what a fetch takes on a processor, and off it.
    stages: Shares = field(default_factory=dict[str, tuple[float, float]])
    constants: Constants | None = None
    # threads that are ready while a worker is: ``baseline.fit_worker_threads``
    worker_threads: float = 1.0
    used_cpus: float | None = None  # processors that the training process itself used, mean
    # how much longer the first batch of a newly started process is on the way
    first_batch_ns: int = 0
    delay_share: float | None = None  # share of time in which its first thread waited for one
    shareable: float | None = None  # of the training thread's own time: in long operators
    felt_threads: float | None = None  # of ``worker_threads``, what ``delay_share`` explains

    @property
    def cores(self) -> float:
        """Return the processors that one rank has; infinite where they were not counted."""
        cpus = self.machine.cpus
        return (
            float("inf") if cpus is None else max(1.0, (cpus - self.other_cpus) / self.local_ranks)
        )

    @property
    def threads(self) -> int:
        """Return how many threads compute in the training process, where they compute its steps."""
        if self.on_device:
            return 1
        return max(1, self.machine.intra_op_threads or self.machine.cpus or 1)

    @property
    def bytes(self) -> int:
        """Return the bytes of a batch; 0 where that is not known."""
        return self.loader.batch_bytes or 0


class Draw(Struct, frozen=True):
    """A resample of the rows, and where each uncertain value lies in its interval."""

    rows: Int64
    chances: Mapping[str, float] = field(default_factory=dict[str, float])

    def value_of(self, name: str, estimate: Estimate) -> float:
        """Return a value of an interval: the same for equal names."""
        return interpolate(estimate, self.chances.get(name, 0.5))


def interpolate(estimate: Estimate, chance: float) -> float:
    """Return a value of a 90 % interval, linear between its three points and not beyond."""
    points = (estimate.low, estimate.mid, estimate.high)
    return float(np.interp(chance, (0.05, 0.5, 0.95), points))


DRAW_NAMES: Final = (
    "hand-over",
    "transit",
    "touch",
    "shared",
    "start",
    "pin",
    "threads",
    "fetch-threads",
    "gang",
    "crowding",
    "device",
    "split",
    "each",
    "spinning",
    "team",
    "barriers",
    "bunched",
    "together",
)


def middle_draw(inputs: LoaderInputs) -> Draw:
    """Return the rows as they were, the latest of many, and the middle of all uncertain values."""
    n_rows = len(inputs.rows)
    return Draw(np.arange(max(0, n_rows - _MAX_ROWS), n_rows))


def make_draws(inputs: LoaderInputs, rounds: int) -> Iterator[Draw]:
    """Resample rows in blocks, and draw uncertain values, so many times.

    Each unknown is drawn once from each of as many equal parts of its interval as there are rounds
    (McKay 1979): few rounds cover it evenly.
    """
    random = np.random.default_rng(0)
    n_rows = len(inputs.rows)
    block = min(max(_MIN_BLOCK, _batches_ahead(inputs)), max(1, n_rows // 3))
    blocks = -(-min(n_rows, _MAX_ROWS) // block)
    strata = {
        name: (random.permutation(rounds) + random.random(rounds)) / rounds for name in DRAW_NAMES
    }
    for number in range(rounds):
        heads = random.integers(0, n_rows - block + 1, blocks)
        rows = (heads[:, None] + np.arange(block)).ravel()
        yield Draw(rows, {name: float(strata[name][number]) for name in DRAW_NAMES})


def _batches_ahead(inputs: LoaderInputs) -> int:
    """Return how many batches workers make ahead: waits come in rounds of that length."""
    loader = inputs.loader
    return loader.num_workers * (loader.prefetch_factor or 2)


def fill_fetch_times(inputs: LoaderInputs, draw: Draw) -> tuple[Int64, Int64, Int64]:
    """Return running, queueing and blocked times of drawn rows; another's for unknown fetches."""
    rows = inputs.rows
    known_rows = np.flatnonzero(rows.on >= 0)
    if not len(known_rows):
        return _split_waits(inputs, draw)
    random = np.random.default_rng(len(draw.rows))
    source_rows = np.where(
        rows.on[draw.rows] >= 0, draw.rows, random.choice(known_rows, len(draw.rows))
    )
    on, queue, off = rows.on[source_rows], rows.queue[source_rows], rows.off[source_rows]
    if inputs.loader.num_workers:
        return on, queue, off
    # Without workers the wait of each row is known, and the fetch is nearly all of the rest.
    fetch_ns = np.maximum(on + queue + off, 1)
    wait_ns = np.maximum(rows.wait[draw.rows] - inputs.sampler, 0)
    scale = np.where(source_rows == draw.rows, 1.0, wait_ns / fetch_ns)
    return _round_ns(on * scale), _round_ns(queue * scale), _round_ns(off * scale)


def _split_waits(inputs: LoaderInputs, draw: Draw) -> tuple[Int64, Int64, Int64]:
    """Split fetches of which only the wait is known: any share of it may be on a processor."""
    wait = np.maximum(inputs.rows.wait[draw.rows] - inputs.sampler, 0)
    on = _round_ns(wait * draw.value_of("split", _ANY_SHARE))
    return on, np.zeros_like(on), wait - on


def _round_ns(values: npt.NDArray[Any]) -> Int64:
    return np.rint(values).astype(np.int64)


def stage_factors(inputs: LoaderInputs, factors: Mapping[str, float]) -> tuple[float, float]:
    """Return the factors of time on and off a processor, if stages of a fetch change."""
    on, off = 1.0, 1.0
    for name, factor in factors.items():
        share = (0.0, 1.0) if name == BLOCKED else inputs.stages.get(name, (0.0, 0.0))
        on, off = on - share[0] * (1 - factor), off - share[1] * (1 - factor)
    return max(0.0, on), max(0.0, off)


def start_cost(inputs: LoaderInputs, name: str, usual: Estimate) -> Estimate:
    """Return the cost of starting or ending a worker: by the machine's constants, or elsewhere.

    A training is larger than the process that measured them: it may take up to four times as
    long.
    """
    value = None if inputs.constants is None else inputs.constants.value(f"process.{name}")
    return usual if value is None else Estimate(0.7 * value, 1.3 * value, 4 * value)


def pin_cost(inputs: LoaderInputs, draw: Draw) -> int:
    """Return the cost of pinning a batch: as measured on this machine, else as elsewhere."""
    series = inputs.constants.series("copy.pin") if inputs.constants else ()
    ns_per_byte = PINNED
    if series:
        size, pin_ns = series[-1]
        ns_per_byte = Estimate(0.7 * pin_ns / size, pin_ns / size, 2 * pin_ns / size)
    return round(inputs.bytes * draw.value_of("pin", ns_per_byte))
