"""How a loader keeps up with its training, and what its machine could do; for rules of input.

Times are nanoseconds, of one batch. Nothing here says what a wait is worth.
"""

import math
from dataclasses import dataclass
from typing import Final

from gapless.catalogue.choosing import named
from gapless.catalogue.own_processors import Processors, own_processors
from gapless.catalogue.ruling import NotSeenError
from gapless.model.change import Feed
from gapless.model.facts import Facts, Loader
from gapless.model.finding import Measure
from gapless.model.run import LoaderUse, StageUse, WorkerUse
from gapless.model.seen import Seen
from gapless.replay.service import HAND_OVER, TOUCH

WAITED: Final = 0.01  # of the time of steps: below, a loader was hardly waited for
QUEUED: Final = 0.2  # of a fetch: below, workers had a processor as a rule
_MOST: Final = 16  # workers that are asked for, however little of a fetch needs a processor
_CALLS_NS: Final = 200_000  # [G] a handful of operators, from Python
_WRITE_NS: Final = 0.2  # [G] a byte, by one thread: 5 GB/s
_BLOCKED: Final = 0.95  # as much of a fetch is taken to leave its processor to others


@dataclass(frozen=True)
class Loading:
    """A loader that feeds the training, how it was waited for, and what made its batches."""

    loader: Loader
    use: LoaderUse
    share: float  # of the waits in the time of steps
    wait_ns: float  # mean, in regular steps
    work_ns: float  # what the training does from a batch to the next question
    machine: Processors
    facts: Facts

    @property
    def place(self) -> str:
        """Name the line of the loader."""
        return named(self.loader.where)

    @property
    def step_ns(self) -> float:
        """Give the time from one batch to the next."""
        return self.wait_ns + self.work_ns

    @property
    def workers(self) -> WorkerUse:
        """Give who made the batches. Raises ``NotSeenError``."""
        if self.use.workers is None:
            raise NotSeenError("fetches", f"no fetch of the loader at {self.place} was recorded")
        return self.use.workers

    @property
    def fetch_ns(self) -> float:
        """Give how long one takes to make a batch, mean, waiting for a processor left out.

        Raises ``NotSeenError``.
        """
        made = self.workers
        on, queue, off = made.on_cpu or 0.0, made.run_queue or 0.0, made.blocked or 0.0
        whole = on + queue + off
        cpu = self.cpu_ns
        if cpu and on:
            return cpu * (on + off) / on
        if made.fetch_median_ns is None:
            raise NotSeenError("fetches", f"no fetch of the loader at {self.place} was timed")
        return made.fetch_median_ns * (1 - queue / whole if whole else 1.0)

    @property
    def cpu_ns(self) -> float | None:
        """Give what of that needs a processor; ``None``: it was not observed."""
        made = self.workers
        batch = made.samples / made.fetches if made.samples and made.fetches else None
        batch = batch or self.loader.batch_size
        return (
            None if made.cpu_per_sample_ns is None or not batch else made.cpu_per_sample_ns * batch
        )

    @property
    def sampler_ns(self) -> float:
        """Give how long the training thread chooses samples, where that takes long."""
        whole = self.use.wait_ns
        return self.wait_ns * self.use.stages.get("data.sampler", 0) / whole if whole else 0.0

    def enough(self) -> int:
        """Give how many workers make batches as fast as they are used up, and one more."""
        return math.ceil(self.fetch_ns / max(self.work_ns + self.sampler_ns, 1.0)) + 1

    def most(self) -> int:
        """Give how many workers the processors feed. Raises ``NotSeenError``."""
        fetch, cpu = self.fetch_ns, self.cpu_ns
        share = 1.0 if cpu is None else min(1.0, max(1 - _BLOCKED, cpu / fetch if fetch else 1.0))
        own = self.machine.own
        return min(max(1, round(own / share)), max(_MOST, own))

    def kept_busy(self, workers: int) -> float:
        """Give how many processors so many workers need at once. Raises ``NotSeenError``."""
        cpu = self.fetch_ns if self.cpu_ns is None else self.cpu_ns
        work = self.work_ns + self.sampler_ns
        return cpu / max(work, self.fetch_ns / max(1, workers), 1.0)

    def target(self) -> int:
        """Give how many workers to try: enough, or all that the processors feed."""
        return min(self.enough(), self.most())

    @property
    def hand_over_ns(self) -> float:
        """Give what handing a batch over usually takes, by its size, on other machines."""
        return HAND_OVER.mid + TOUCH.mid * (self.loader.batch_bytes or 0)

    @property
    def hand_over_most_ns(self) -> float:
        """Give what it took at the most on other machines."""
        return HAND_OVER.high + TOUCH.high * (self.loader.batch_bytes or 0)

    @property
    def moved_ns(self) -> float:
        """Give what making a batch takes at the least: it is written once, by some calls."""
        return _CALLS_NS + _WRITE_NS * (self.loader.batch_bytes or 0)

    @property
    def queued(self) -> float:
        """Give the share of a fetch in which workers waited for a processor."""
        made = self.workers
        whole = (made.on_cpu or 0.0) + (made.run_queue or 0.0) + (made.blocked or 0.0)
        return (made.run_queue or 0.0) / whole if whole else 0.0

    def at_best(self, workers: int, kept: float = 1.0, on_cpu: float | None = None) -> float:
        """Give what a step takes at the least, with so many workers and that share of a fetch.

        The training's own work with the hand-over, the workers together, all processors together
        (the training's own need of them included where it computes on them). ``on_cpu``: the share
        of what needs a processor, if it is another. Raises ``NotSeenError``.

        Where workers waited for processors that the training computes on, it waited for them, too:
        what is not done there any more is room for it.
        """
        if not workers:
            return self.work_ns + self.sampler_ns + (self.wait_ns - self.sampler_ns) * kept
        fetch = self.fetch_ns * kept
        cpu = fetch if self.cpu_ns is None else self.cpu_ns * (kept if on_cpu is None else on_cpu)
        own = self.work_ns - self._eased((self.cpu_ns or 0.0) - cpu) + self.hand_over_ns
        own += self.sampler_ns
        every = cpu + own if self.machine.computes else cpu
        return max(own, fetch / workers, every / self.machine.own)

    def _eased(self, gone: float) -> float:
        """Give what the training's work becomes shorter, at most, if so much CPU is not needed."""
        if not self.machine.computes or self.queued < QUEUED or self._has_room():
            return 0.0
        return min(max(0.0, gone) / self.machine.own, self.work_ns * self.queued)

    def _has_room(self) -> bool:
        """Tell whether each thread of training and workers has a processor, as far as known.

        What workers waited for were others, then.
        """
        threads = self.machine.threads
        return threads is None or threads + self.loader.num_workers <= self.machine.own

    def others(self) -> tuple[int, ...]:
        """Give another number to compare that with: with room to spare, or with room for others."""
        enough, most = self.enough(), self.most()
        other = min(2 * enough, most) if enough < most else max(1, most // 2)
        return () if other in (self.target(), self.loader.num_workers) else (other,)

    @property
    def blocked_ns(self) -> float:
        """Give how long making a batch is neither on a processor nor in want of one.

        In the data set's code: collating is left out. 0.0 where fetches wait for processors: what
        they are blocked for may be a thread that does. Raises ``NotSeenError``.
        """
        if self.cpu_ns is None or self.queued >= QUEUED:
            return 0.0
        off = {one.name: max(0.0, one.wall_ns - one.cpu_ns) for one in self.stages()}
        own = sum(ns for name, ns in off.items() if name != "collate")
        return max(0.0, self.fetch_ns - self.cpu_ns) * own / (sum(off.values()) or 1.0)

    @property
    def blocks(self) -> bool:
        """Tell whether a fetch is usually blocked for longer than any stage needs a processor."""
        stages, cpu = self.stages(), self.cpu_ns or 0.0
        most, every = max(one.cpu_ns for one in stages), sum(one.cpu_ns for one in stages)
        median = self.workers.fetch_median_ns
        usual = self.fetch_ns if median is None else median * (1 - self.queued)
        return min(self.blocked_ns, usual - cpu) > cpu * most / (every or 1.0)

    def stages(self) -> tuple[StageUse, ...]:
        """Give the stages of a fetch, the most expensive first. Raises ``NotSeenError``."""
        stages = self.workers.stages
        if not stages:
            raise NotSeenError(
                "stages", f"no fetch of the loader at {self.place} showed its stages"
            )
        return stages

    def asked(self, fix: str, value: int | None = None) -> str:
        """Name a fix of this loader as ``gapless try --fix`` takes it."""
        where = self.loader.where
        at = "" if where is None or not self.machine.several else f"@{named(where)}"
        return f"{fix}{at}" + ("" if value is None else f"={value}")


def loading(seen: Seen, loader: Loader) -> Loading | None:
    """Give how a loader feeds the training; ``None``: it does not, or nobody waited for it."""
    if seen.foreign:
        raise NotSeenError("fetches", "a trace does not show how a loader's batches are made")
    use = seen.use(loader)
    recorded = seen.study.recorded
    steps = recorded.steps if recorded is not None else None
    if seen.facts is None or loader.trains is False or use is None or steps is None:
        return None
    if not use.share or not use.waits:
        return None
    share = min(use.share, 1.0)  # of the regular steps: the first wait of all is none of theirs
    batch = steps.mean_ns * steps.count * seen.facts.world.ranks / use.waits
    processors = own_processors(seen.facts)
    return Loading(loader, use, share, share * batch, (1 - share) * batch, processors, seen.facts)


def waited(seen: Seen, loader: Loader) -> Loading | None:
    """Give the same of a loader that was waited for at all."""
    found = loading(seen, loader)
    return found if found is not None and found.share >= WAITED else None


def evidence(one: Loading) -> tuple[Measure, ...]:
    """Give the figures that all rules of input rest on."""
    return (
        Measure("waited for", one.share, "share"),
        Measure("wait for a batch", one.wait_ns, "ns"),
        Measure("work between batches", one.work_ns, "ns"),
        Measure("workers", one.loader.num_workers, ""),
    )


def more_workers(one: Loading, only: int | None = None) -> tuple[str, ...]:
    """Name the fixes that set as many workers as are to be tried, the likeliest first.

    Where the training computes on the same processors its own threads stand in the way of workers.
    ``only``: this number and no other.
    """
    numbers = (one.target(), *one.others()) if only is None else (only,)
    return tuple(text for many in numbers for text in _setting(one, many))


def fed(one: Loading, only: int | None = None) -> Feed:
    """Give the change that the first of those fixes brings."""
    many = one.target() if only is None else only
    return Feed(
        one.loader.id, num_workers=many, intra_op_threads=1 if _crowded(one, many) else None
    )


def _setting(one: Loading, many: int) -> tuple[str, ...]:
    plain = (one.asked("more-workers", many),)
    return (one.asked("workers-and-one-thread", many), *plain) if _crowded(one, many) else plain


def _crowded(one: Loading, many: int) -> bool:
    """Tell whether so many workers need processors that the training's own threads take.

    Workers that are blocked need none.
    """
    threads = one.machine.threads or 1
    needed = round(one.kept_busy(many))
    return one.machine.computes and threads > 1 and needed + threads > one.machine.own


def percent(share: float) -> str:
    """Write a share: "97 %"."""
    return f"{share * 100:.0f} %"
