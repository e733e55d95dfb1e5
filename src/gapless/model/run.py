"""What a recorded run adds to a study: the whole command, its steps, loaders, workers, machine.

Times are integer nanoseconds, shares fractions; ``None`` is what was not observed.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, field

from gapless.model.account import Account
from gapless.model.calls import CallTree
from gapless.model.footprint import Footprint
from gapless.model.host_code import CallLine, FetchWait, HostCode, HotLine
from gapless.model.picture import Pace
from gapless.model.recording import Node, Unobserved
from gapless.model.rhythm import LongSteps, Phase, Sighting, UnlikeSteps


class RunLife(Struct, frozen=True):
    """How the command was started and how it ended."""

    id: str
    path: str
    command: tuple[str, ...]
    status: str  # running | finished | failed | killed
    exit_code: int | None
    stopped_by: str | None  # "check": gapless ended it, as asked
    wall_ns: int | None  # from the command's start to its end; None while it runs
    started_unix_ns: int


class ProcessTime(Struct, frozen=True):
    """The life of one training process, charged to run leaves that sum to ``wall_ns``."""

    rank: int | None  # None: processes that are no ranks go by the same one
    pid: int
    wall_ns: int
    leaves: Mapping[str, int]
    steps: int  # that ended
    stepping: Mapping[str, int]  # run leaves of its un-profiled steps
    mean_ns: int | None  # of its un-profiled steps
    median_ns: int | None
    first_step_ns: int | None  # from the start of the process to the end of its first step
    first_batch_ns: int | None  # how long the first hand-over of a batch took, workers' start too
    to_first_batch_ns: int | None  # from the start of the process to that hand-over
    killed: bool  # it wrote no end: what came after its last record is unknown
    script: str | None = None  # that it ran, without its folder
    followed: bool = False  # its steps are those of the report


class Timeline(Struct, frozen=True):
    """All training processes from start to exit; leaves sum to ``wall_ns`` exactly."""

    wall_ns: int
    leaves: Mapping[str, int]
    processes: tuple[ProcessTime, ...]

    def leading_process(self) -> ProcessTime | None:
        """Return the process whose steps are looked at; of several the lowest rank's."""
        followed = [process for process in self.processes if process.followed] or self.processes
        order = [-1 if process.rank is None else process.rank for process in followed]
        return followed[order.index(min(order))] if order else None


class ProfilerSlowdown(Struct, frozen=True):
    """Steps before the first window of a profiler, and behind it, where they are longer."""

    count: int  # steps before it
    before_ns: int  # medians, without waits for data and what is seldom
    behind_ns: int


class RunSteps(Struct, frozen=True):
    """Step times outside the windows of any profiler, over all ranks."""

    count: int  # steps of the rank that made most
    regular: int  # un-profiled steps that the figures are of, all ranks together
    mean_ns: int
    median_ns: int
    p10_ns: int
    p90_ns: int
    noise: float | None  # half-width of the 90 % interval of the median; None below 50 steps
    samples_per_s: float | None  # of all ranks together
    device_median_ns: int | None  # between the ends of two steps on the device
    rule: str  # "optimizer", "loader"
    anchor: str  # what ends a step: "SGD.step, train.py:41"
    profiled_only: bool  # every step lay in a window: the figures are of those
    noted: int  # of the regular ones, one by one: median, p10, p90 and noise are of these
    # Of those that were noted one by one, with those that are left out: the shortest, a tenth.
    host_ns: tuple[int, int] | None = None
    slowdown: ProfilerSlowdown | None = None  # by what a profiler leaves behind; of one rank
    ahead: int = 0  # left out, all ranks together: the host only ran ahead of its device
    # Of what is measured by itself (a checkpoint), by leaf: the relative half-width of the 90 %
    # interval of what it takes of a step, 1 where its period is not known. Of a sole process.
    spreads: Mapping[str, float] = field(default_factory=dict[str, float])
    sightings: Mapping[str, Sighting] = field(default_factory=dict[str, Sighting])  # of one rank
    # By what share so few steps as a window holds miss the usual step, waits and lumps aside: nine
    # blocks in ten by no more. None: too few steps to tell.
    drift: float | None = None
    phases: tuple[Phase, ...] = ()  # of the first rank; none: one thing ends all steps
    long_steps: LongSteps | None = None  # of a sole process without a device; None: none are
    # Backward passes that make one step of the optimizer, where each of them ends a step.
    passes: int | None = None
    update_ns: int = 0  # then: that step's own call, on the host, as a rule
    rank_rates: Mapping[int, float] = field(default_factory=dict[int, float])  # samples per second


class OptimizerUse(Struct, frozen=True):
    """An optimizer that ends no step: it is called more often, or less than the rule asks for."""

    name: str
    file: str | None
    line: int | None
    calls: int  # of the first rank


class CpuContention(Struct, frozen=True):
    """Processors that were not ours to use while the training stepped: means over that time."""

    cores: float  # that processes of others took
    stolen: float | None  # that the hypervisor gave to other machines
    processors: int | None  # of the machine


class PageFaults(Struct, frozen=True):
    """Memory that the kernel hands a training thread anew in each un-profiled step."""

    count: float  # pages a step that its process does not keep
    kernel_ns: float  # a step: the thread is in the kernel, for these or for whatever it asked for
    step_ns: float  # of these steps
    fault_ns: float  # of a processor, for a page on this machine
    page_bytes: int
    since_window: float | None = None  # ``count`` since the first window; None: nothing before it


class DeviceState(Struct, frozen=True):
    """How a GPU was doing, as sampled; shares of looks, of those in which it worked where said."""

    number: int
    busy: float | None  # of the time, a kernel ran
    clock_mhz: float | None  # of its multiprocessors, while it worked: the mean
    best_mhz: float | None  # the highest seen
    held: Mapping[str, float]  # what held the clock back while it worked: "heat", "power" …
    others: float | None  # processes that are not of the run computed on it
    memory_peak: int | None  # bytes, of everybody
    memory_total: int | None
    celsius: float | None  # the highest


class StepAccount(Struct, frozen=True):
    """Where an un-profiled step goes: run rows for what is lumpy, device rows for the rest.

    ``account`` sums to the un-profiled steps exactly. ``refined_by`` counts the steps (rows of a
    device, or of the training thread) of windows that split "the step itself"; 0: none did.
    """

    account: Account
    refined_by: int
    on_device: bool  # the windows saw a device at work
    hidden_ns: int  # of waits: the device still had work, so that they cost nothing
    backlog_ns: int | None  # that work, where a wait began: median of the windows
    excess_ns: int  # of what is unknown: longer than the steps of the windows explain
    host_scale: float | None  # what the host cost outside the windows, per what it cost in them
    unlike: UnlikeSteps | None = None  # steps of a kind that no window holds: "step" in the account
    weighed: bool = False  # steps of windows count as often as the kinds that they stand for


class StageUse(Struct, frozen=True):
    """One stage of loading, per sample; of the fetches in which stages were measured."""

    name: str
    wall_ns: float
    cpu_ns: float
    share: float  # of a fetch, without waiting for a processor where that is known


class WorkerUse(Struct, frozen=True):
    """What makes the batches of a loader: its workers together, or the training process."""

    processes: int  # 0: the training process itself
    fetches: int
    samples: int | None
    fetch_median_ns: int | None  # of those that were recorded one by one
    lifetime_ns: int  # of all workers, from their first fetch of an iteration to their last
    busy: float | None  # shares of that life; None in the training process
    on_cpu: float | None
    run_queue: float | None
    blocked: float | None
    cpu_per_sample_ns: float | None
    bytes_per_sample: float | None
    from_disk_per_sample: float | None
    faults_per_sample: float | None
    random: bool | None  # a fetch advanced a random generator
    stages: tuple[StageUse, ...]  # the most expensive first
    staged: int  # fetches in which stages were measured
    slots: int | None = None  # workers at a time; None in the training process
    threads: int | None = None  # that torch's operators use in a worker, at most


class LoaderUse(Struct, frozen=True):
    """One loader, all ranks together: how long it was waited for, and what made its batches.

    Loaders that one line made with the same settings are one.
    """

    id: int
    file: str | None
    line: int | None
    function: str | None
    settings: Mapping[str, Any]  # as the loader was made: batch_size, num_workers …
    waits: int
    wait_ns: int
    # Of the time of steps, without waits that are part of an evaluation; None: it was never used
    # between two steps.
    share: float | None
    mean_ns: int | None
    p95_ns: int | None
    longest_ns: int | None
    first_ns: int | None  # the first hand-over of an iteration, the mean of them
    hand_over_ns: int  # of the waits: the batch was made already
    stages: Mapping[str, int]  # of the waits, by run leaf; sums to ``wait_ns``
    iterations: int
    restart_ns: int  # of all iterations: iter(loader), workers' start and end
    workers: WorkerUse | None
    # Facets of the waits for batches that workers made, those whose fetch is known; they change no
    # sum. None: there are none.
    known_ns: int | None = None  # how long those waits were
    queueing_ns: int | None = None  # of that: its worker was still at an earlier batch
    hol_ns: int | None = None  # of that: a later batch was complete, the one that was due was not
    evaluation_ns: int = 0  # of the waits: for batches of evaluations, which they are charged to
    made: int = 1  # so many loaders of one line and alike: made anew for each epoch, say


class Series(Struct, frozen=True):
    """A sampled quantity over the command, in equal stretches of time."""

    name: str
    title: str
    unit: str
    mean: float
    low: float
    high: float
    points: tuple[float | None, ...]
    ceiling: int | float | None  # the most it can be; printed as it was given


class Energy(Struct, frozen=True):
    """What the devices drew over the run."""

    joules: float
    idle_joules: float | None  # while no kernel ran (by the sampled utilisation)
    source: str  # "energy counter" | "sampled power"


class RunCost(Struct, frozen=True):
    """What the devices cost at a price per hour; ``idle`` while they did not work."""

    price: float  # per device and hour
    devices: int
    whole: float
    idle: float | None
    idle_share: float | None
    source: str | None  # where the share is from


class RecordedRun(Struct, frozen=True):
    """All that the recorder of a run noted beside what its windows hold."""

    life: RunLife
    timeline: Timeline
    steps: RunSteps | None
    account: StepAccount | None
    loaders: tuple[LoaderUse, ...]
    machine: tuple[Series, ...]
    energy: Energy | None
    cost: RunCost | None
    lines: tuple[HotLine, ...]
    unobserved: tuple[Unobserved, ...]
    device: str | None
    devices: int | None  # that the training used; None: not known
    windows: int  # that were kept and read
    notes: tuple[str, ...]
    adopted: tuple[str, ...] = ()  # traces of the training's own profiler, as windows
    footprint: Footprint | None = None
    clock_error_ns: int | None = None  # of the axis that marks and windows share
    contention: CpuContention | None = None
    optimizers: tuple[OptimizerUse, ...] = ()
    devices_seen: tuple[DeviceState, ...] = ()
    rank_lines: Mapping[int, tuple[HotLine, ...]] = field(  # of several ranks: each one's own
        default_factory=dict[int, tuple[HotLine, ...]]
    )
    host_code: tuple[HostCode, ...] = ()  # of training threads
    loading_lines: tuple[HotLine, ...] = ()  # of training threads, in loaders without workers
    call_lines: tuple[CallLine, ...] = ()  # most time first
    hook_lines: tuple[HotLine, ...] = ()  # of modules' and tensors' hooks, with all they call
    trainer_lines: tuple[HotLine, ...] = ()  # of the package that the user's one line leaves all to
    fetch_waits: tuple[FetchWait, ...] = ()  # of making batches, most first
    calls: tuple[CallTree, ...] = ()  # of whole processes, by rank; of workers last
    pace: Pace | None = None  # where it was asked for (``Options.pictured``)
    page_faults: PageFaults | None = None  # of one training; None: not sampled
    nodes: tuple[Node, ...] = ()  # of a job whose machines were recorded one by one


# Of a mere trace: a run of which nothing was noted.
UNRECORDED: Final = RecordedRun(
    life=RunLife("", "", (), "", None, None, None, 0),
    timeline=Timeline(0, {}, ()),
    steps=None,
    account=None,
    loaders=(),
    machine=(),
    energy=None,
    cost=None,
    lines=(),
    unobserved=(),
    device=None,
    devices=None,
    windows=0,
    notes=(),
)
