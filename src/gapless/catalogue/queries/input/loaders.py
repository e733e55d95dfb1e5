"""How a loader keeps up with its training, and what its machine could do; for input rules.

Times are nanoseconds, for one batch. What a wait is worth is not decided here.
"""

import math
from typing import Final

from msgspec import Struct

from gapless.catalogue.declare.fix import Fix
from gapless.catalogue.declare.selectors import name_line
from gapless.catalogue.queries.input.own_processors import Processors, find_processors
from gapless.model.change import LoaderChange
from gapless.model.edit import FixRequest
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.facts import Facts, Loader
from gapless.model.finding import Measure
from gapless.model.run import LoaderUse, StageUse, WorkerUse
from gapless.replay.loader.costs import HAND_OVER, TOUCH

MIN_WAIT_SHARE: Final = 0.01  # of the time of steps: below it, a loader was hardly waited for
MIN_QUEUE_SHARE: Final = 0.2  # of a fetch: below it, workers usually had a processor
_MAX_WORKERS: Final = 16  # workers to propose, however little CPU a fetch needs
_CALLS_NS: Final = 200_000  # assumed: a handful of operators, called from Python
_WRITE_NS: Final = 0.2  # a byte, assumed for one thread: 5 GB/s
_MAX_BLOCKED_SHARE: Final = 0.95  # of a fetch: at most so much leaves its processor to others
_THREADED: Final = "tokenise"  # blocked there, a fetch waits for threads of its library
_IN_MEMORY: Final = (_THREADED, "collate")  # stages that reach for no data


class Loading(Struct, frozen=True):
    """A loader that feeds the training, how it was waited for, and what made its batches."""

    loader: Loader
    use: LoaderUse
    share: float  # of the waits in the time of steps
    wait_ns: float  # mean, in regular steps
    work_ns: float  # of the training, from a batch to the next request
    processors: Processors
    facts: Facts

    @property
    def line_ref(self) -> str:
        """Return the short name of the line of the loader."""
        return name_line(self.loader.location)

    @property
    def step_ns(self) -> float:
        """Return the time from one batch to the next."""
        return self.wait_ns + self.work_ns

    @property
    def workers(self) -> WorkerUse:
        """Return who made the batches. Raises ``NotObservedError``."""
        if self.use.workers is None:
            raise NotObservedError(
                "fetches", f"no fetch of the loader at {self.line_ref} was recorded"
            )
        return self.use.workers

    @property
    def fetch_ns(self) -> float:
        """Return the mean time to make a batch, without waits for a processor.

        Raises ``NotObservedError``.
        """
        workers = self.workers
        on_cpu, in_queue, blocked = (
            workers.on_cpu or 0.0,
            workers.run_queue or 0.0,
            workers.blocked or 0.0,
        )
        total = on_cpu + in_queue + blocked
        cpu_ns = self.cpu_ns
        if cpu_ns and on_cpu:
            return cpu_ns * (on_cpu + blocked) / on_cpu
        if workers.fetch_median_ns is None:
            raise NotObservedError(
                "fetches", f"no fetch of the loader at {self.line_ref} was timed"
            )
        return workers.fetch_median_ns * (1 - in_queue / total if total else 1.0)

    @property
    def cpu_ns(self) -> float | None:
        """Return how much of a fetch needs a processor; ``None``: it was not observed."""
        workers = self.workers
        batch_size = (
            workers.samples / workers.fetches if workers.samples and workers.fetches else None
        )
        batch_size = batch_size or self.loader.batch_size
        return (
            None
            if workers.cpu_per_sample_ns is None or not batch_size
            else workers.cpu_per_sample_ns * batch_size
        )

    @property
    def sampler_ns(self) -> float:
        """Return how long the training thread takes to choose samples, if that takes long."""
        total_ns = self.use.wait_ns
        return self.wait_ns * self.use.stages.get("data.sampler", 0) / total_ns if total_ns else 0.0

    def enough_workers(self) -> int:
        """Return how many workers make batches as fast as they are used, plus one."""
        return math.ceil(self.fetch_ns / max(self.work_ns + self.sampler_ns, 1.0)) + 1

    def max_workers(self) -> int:
        """Return how many workers the processors can feed. Raises ``NotObservedError``."""
        cpu_ns = self.cpu_ns
        share = (
            1.0
            if cpu_ns is None
            else min(1.0, max(1 - _MAX_BLOCKED_SHARE, self._busy_share(cpu_ns)))
        )
        n_processors = self.processors.count
        return min(max(1, round(n_processors / share)), max(_MAX_WORKERS, n_processors))

    def _busy_share(self, cpu_ns: float) -> float:
        """Return the share of a fetch in which it, or a thread that it waits for, computes."""
        waits_by_stage = {
            stage.name: max(0.0, stage.wall_ns - stage.cpu_ns) for stage in self.workers.stages
        }
        waited_share = waits_by_stage.get(_THREADED, 0.0) / (sum(waits_by_stage.values()) or 1.0)
        fetch_ns = self.fetch_ns
        return 1 - (1 - cpu_ns / fetch_ns) * (1 - waited_share) if fetch_ns else 1.0

    def busy_processors(self, n_workers: int) -> float:
        """Return how many processors so many workers keep busy. Raises ``NotObservedError``."""
        cpu_ns = self.cpu_ns
        busy_ns = self.fetch_ns if cpu_ns is None else self.fetch_ns * self._busy_share(cpu_ns)
        work_ns = self.work_ns + self.sampler_ns
        return busy_ns / max(work_ns, self.fetch_ns / max(1, n_workers), 1.0)

    def is_crowded(self, n_workers: int) -> bool:
        """Return whether so many workers need processors that the training's own threads use.

        Workers that are blocked need none. Raises ``NotObservedError``.
        """
        threads = self.processors.threads or 1
        n_busy = round(self.busy_processors(n_workers))
        return self.processors.computes and threads > 1 and n_busy + threads > self.processors.count

    def target_workers(self) -> int:
        """Return how many workers to try: enough, or as many as the processors can feed."""
        return min(self.enough_workers(), self.max_workers())

    @property
    def hand_over_ns(self) -> float:
        """Return the usual time to hand a batch of this size over, from other machines."""
        return HAND_OVER.mid + TOUCH.mid * (self.loader.batch_bytes or 0)

    @property
    def max_hand_over_ns(self) -> float:
        """Return the longest time to hand such a batch over, from other machines."""
        return HAND_OVER.high + TOUCH.high * (self.loader.batch_bytes or 0)

    @property
    def min_batch_ns(self) -> float:
        """Return the minimum time to make a batch: some calls, and writing it once."""
        return _CALLS_NS + _WRITE_NS * (self.loader.batch_bytes or 0)

    @property
    def n_samples(self) -> float:
        """Return the samples of a fetch, on average; 0: they were not counted."""
        return (self.workers.samples or 0) / max(1, self.workers.fetches)

    @property
    def queue_share(self) -> float:
        """Return the share of a fetch in which workers waited for a processor."""
        workers = self.workers
        total = (workers.on_cpu or 0.0) + (workers.run_queue or 0.0) + (workers.blocked or 0.0)
        return (workers.run_queue or 0.0) / total if total else 0.0

    def min_step_ns(
        self, n_workers: int, fetch_share: float = 1.0, cpu_share: float | None = None
    ) -> float:
        """Return the minimum time of a step, with so many workers and this share of a fetch.

        It is the longest of: the training's own work with the hand-over, the time of the workers,
        and the time of all processors. The training's own thread has one of them while it works, on
        a device too: it launches, and waits for the device without leaving its processor.
        ``cpu_share``: the remaining share of CPU time, if it differs. Raises ``NotObservedError``.

        Where workers waited for processors that the training computes on, the training waited for
        them, too: CPU time that is saved speeds it up.
        """
        if not n_workers:
            return self.work_ns + self.sampler_ns + (self.wait_ns - self.sampler_ns) * fetch_share
        fetch_ns = self.fetch_ns * fetch_share
        cpu_ns = (
            fetch_ns
            if self.cpu_ns is None
            else self.cpu_ns * (fetch_share if cpu_share is None else cpu_share)
        )
        training_ns = (
            self.work_ns - self._saved_work_ns((self.cpu_ns or 0.0) - cpu_ns) + self.hand_over_ns
        )
        training_ns += self.sampler_ns
        processors_ns = cpu_ns + training_ns
        return max(training_ns, fetch_ns / n_workers, processors_ns / self.processors.count)

    def _saved_work_ns(self, freed_cpu_ns: float) -> float:
        """Return the time that the training's work saves, at most, if this CPU time is freed."""
        if (
            not self.processors.computes
            or self.queue_share < MIN_QUEUE_SHARE
            or self._has_free_processor()
        ):
            return 0.0
        return min(max(0.0, freed_cpu_ns) / self.processors.count, self.work_ns * self.queue_share)

    def _has_free_processor(self) -> bool:
        """Return whether each thread of training and workers has a processor, as far as known.

        If so, workers waited for processes outside the run.
        """
        threads = self.processors.threads
        return threads is None or threads + self.loader.num_workers <= self.processors.count

    def alternative_workers(self) -> tuple[int, ...]:
        """Return another number of workers to compare with: one with spare capacity, or fewer."""
        n_enough, n_max = self.enough_workers(), self.max_workers()
        alternative = min(2 * n_enough, n_max) if n_enough < n_max else max(1, n_max // 2)
        return (
            ()
            if alternative in (self.target_workers(), self.loader.num_workers)
            else (alternative,)
        )

    @property
    def blocked_ns(self) -> float:
        """Return how long making a batch is neither on a processor nor waiting for one.

        Only stages that may reach for data count, not tokenising or collating. 0.0 where fetches
        wait for processors: they may be blocked on a thread that waits for one. Raises
        ``NotObservedError``.
        """
        if self.cpu_ns is None or self.queue_share >= MIN_QUEUE_SHARE:
            return 0.0
        blocked_by_stage = {
            stage.name: max(0.0, stage.wall_ns - stage.cpu_ns) for stage in self.stages()
        }
        reaching_ns = sum(ns for name, ns in blocked_by_stage.items() if name not in _IN_MEMORY)
        return (
            max(0.0, self.fetch_ns - self.cpu_ns)
            * reaching_ns
            / (sum(blocked_by_stage.values()) or 1.0)
        )

    @property
    def is_blocked(self) -> bool:
        """Return whether a fetch is usually blocked for longer than any stage uses a processor."""
        stages, cpu_ns = self.stages(), self.cpu_ns or 0.0
        max_stage_ns, stages_ns = (
            max(stage.cpu_ns for stage in stages),
            sum(stage.cpu_ns for stage in stages),
        )
        median_ns = self.workers.fetch_median_ns
        usual_ns = self.fetch_ns if median_ns is None else median_ns * (1 - self.queue_share)
        return min(self.blocked_ns, usual_ns - cpu_ns) > cpu_ns * max_stage_ns / (stages_ns or 1.0)

    def stages(self) -> tuple[StageUse, ...]:
        """Return the stages of a fetch, the most expensive first. Raises ``NotObservedError``."""
        stages = self.workers.stages
        if not stages:
            raise NotObservedError(
                "stages", f"no fetch of the loader at {self.line_ref} showed its stages"
            )
        return stages

    def request(self, fix: Fix, value: int | None = None) -> FixRequest:
        """Return a fix for this loader, by its line where there are several."""
        location = self.loader.location
        is_alone = location is None or not self.processors.has_several_loaders
        return fix.request(value, None if is_alone else name_line(location))


def find_loading(evidence: Evidence, loader: Loader) -> Loading | None:
    """Return how a loader feeds the training; ``None``: it does not, or is not waited for."""
    if evidence.is_trace_only:
        raise NotObservedError("fetches", "a trace does not show how a loader's batches are made")
    use = evidence.loader_use(loader)
    steps = evidence.run_steps
    if loader.trains is False or use is None or steps is None:
        return None
    if not use.share or not use.waits:
        return None
    share = min(use.share, 1.0)  # of the regular steps, which do not include the very first wait
    batch_ns = steps.mean_ns * steps.count * evidence.facts.world.ranks / use.waits
    processors = find_processors(evidence.facts)
    return Loading(
        loader, use, share, share * batch_ns, (1 - share) * batch_ns, processors, evidence.facts
    )


def find_waited_loading(evidence: Evidence, loader: Loader) -> Loading | None:
    """Return how a loader feeds the training, if it was waited for at all."""
    loading = find_loading(evidence, loader)
    return loading if loading is not None and loading.share >= MIN_WAIT_SHARE else None


def measure_loading(loading: Loading) -> tuple[Measure, ...]:
    """Return the measures that all input rules rest on."""
    return (
        Measure("waited for", loading.share, "share"),
        Measure("wait for a batch", loading.wait_ns, "ns"),
        Measure("work between batches", loading.work_ns, "ns"),
        Measure("workers", loading.loader.num_workers, ""),
    )


def change_workers(loading: Loading, fixed_count: int | None = None) -> LoaderChange:
    """Return the change that the first fix of ``request_workers`` makes."""
    n_workers = loading.target_workers() if fixed_count is None else fixed_count
    return LoaderChange(
        loading.loader.id,
        num_workers=n_workers,
        intra_op_threads=1 if loading.is_crowded(n_workers) else None,
    )


def percent(share: float) -> str:
    """Format a share: "97 %"."""
    return f"{share * 100:.0f} %"
