"""What a loader with workers would take without them, or if they lived on: from a run's own marks.

The training thread is seen to wait for workers to start, to end, and for each batch. What of it
goes needs no replay of their queue. Times are nanoseconds, of one batch.
"""

from typing import Final

from gapless.catalogue.loading import Loading
from gapless.model.interval import Interval

# [G] A worker puts samples together in shared memory that is new each time, and writes to pages
# that it had in common with its parent. Of what that took, the training process itself took 0.17
# and 0.36 in two trainings that had a loader of either kind.
_COLLATING: Final = Interval(0.25, 0.6, 1.0)
_TWICE: Final = 2  # iterations
_STARTS: Final = Interval(0.85, 1.0, 1.05)  # of what workers' start and end was seen to take


def start_ns(one: Loading) -> float:
    """Give what beginning iterations again takes, of each batch.

    The first one begins before there are steps, so it is part of none; nor is a single one's end.
    """
    use = one.use
    if use.iterations < _TWICE or not use.waits:
        return 0.0
    again = use.restart_ns * (use.iterations - 1) / use.iterations
    return min(again / use.waits, one.work_ns)


def making_ns(one: Loading) -> Interval:
    """Give what the training process itself would take to make a batch. Raises ``NotSeenError``."""
    stages = one.workers.stages
    whole = sum(stage.cpu_ns for stage in stages)
    collating = sum(stage.cpu_ns for stage in stages if stage.name == "collate")
    work = one.fetch_ns if one.cpu_ns is None else min(one.cpu_ns, one.fetch_ns)
    less = work * collating / whole if whole else 0.0
    low, mid, high = (
        one.fetch_ns - less * (1 - left)
        for left in (_COLLATING.low, _COLLATING.mid, _COLLATING.high)
    )
    return Interval(low, mid, high)


def kept_alive(one: Loading) -> Interval:
    """Give the share of a step that goes if workers live on: low end, middle, high end."""
    share = start_ns(one) / one.step_ns if one.step_ns else 0.0
    return Interval(share * _STARTS.low, share * _STARTS.mid, share * _STARTS.high)


def taken_ns(one: Loading, computing: float) -> Interval:
    """Give what a batch's making in a worker takes from operators that need all processors.

    Nothing where the training computes on a device, or a processor is left for workers. Otherwise
    operators run longer by what a worker worked beside them: as all processors share it at the
    least, and all of it at the most, where the other threads wait for the one that was put aside.

    Args:
        one: the loader.
        computing: share of the step in which operators run.

    """
    cores, cpu = one.machine.counted, one.cpu_ns
    if not one.machine.computes or not cores or cpu is None or (one.machine.threads or 1) < cores:
        return Interval(0.0, 0.0, 0.0)
    most = cpu * computing
    least = most / cores
    return Interval(least, (least + most) / 2, most)


def without_workers(one: Loading, computing: float) -> Interval:
    """Give the share of a step that goes without workers; below 0, a step becomes longer.

    They start no more, are not waited for, and take no processor from operators (``taken_ns``,
    also for ``computing``); each batch is made before its step. Raises ``NotSeenError``.
    """
    made, begun, step = making_ns(one), start_ns(one), one.step_ns or 1.0
    taken = taken_ns(one, computing)
    low, mid, high = (
        (begun * part + one.wait_ns - one.sampler_ns - making + freed) / step
        for part, making, freed in (
            (_STARTS.low, made.high, taken.low),
            (_STARTS.mid, made.mid, taken.mid),
            (_STARTS.high, made.low, taken.high),
        )
    )
    return Interval(low, mid, high)
