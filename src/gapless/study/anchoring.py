"""The un-profiled step that a window is compared with: what both are made of alike.

Steps outside windows hold more or less of what is lumpy (checkpoints, evaluation, epoch turns), and
other waits for data: a profiled loop, being slower, hardly waits for workers, and the few batches
of a window are not like all others. Both are left out, and what the windows have of them put in
their place.
"""

from statistics import NormalDist, median
from typing import Final

from gapless.model.account import Account
from gapless.model.run import LoaderUse, RunSteps, StepAccount
from gapless.model.study import Study
from gapless.replay.alpha import Ahead

_DATA: Final = "idle.data"
_AHEAD: Final = 0.5  # of the device's step: a host that is ahead makes such short steps
_OUTSIDE: Final = ("idle.io_main", "idle.gc")
_OURS: Final = "idle.profiler"
_SEVERAL: Final = 3  # steps: of so many, replays are judged by the median
_ASIDE: Final = 0.1  # of a step: waits and lumps that are less make no step vary much
_TENTH: Final = NormalDist().inv_cdf(0.9)  # standard deviations from the middle to a tenth


def unprofiled_ns(study: Study) -> float | None:
    """Give the mean step that no profiler saw, with waits and lumps as the windows have them.

    ``None`` where no such step was recorded, or nothing would be left of it.
    """
    recorded = study.recorded
    if recorded is None or recorded.account is None or recorded.steps is None:
        return None
    account = recorded.account.account
    if recorded.steps.profiled_only or not account.steps:
        return None
    gone = _per_step(recorded.account, *_OUTSIDE, _DATA)
    # Hooks cost alike in windows; starting a profiler is what makes a few steps longer than most.
    rare = recorded.steps.mean_ns - recorded.steps.median_ns
    gone += max(0.0, min(_per_step(recorded.account, _OURS), rare))
    left = account.wall_ns / account.steps - gone + _in_windows(study.account)
    if left <= 0:
        return None
    return max(left, _of_device(recorded.steps, account.wall_ns / account.steps))


def ahead_of(study: Study) -> Ahead | None:
    """Give how short steps the host made, by itself; ``None`` where none was noted."""
    steps = None if study.recorded is None else study.recorded.steps
    if steps is None or steps.profiled_only or steps.host_ns is None:
        return None
    shortest, tenth = steps.host_ns
    return Ahead(float(shortest), float(tenth))


def spread_of(study: Study) -> float:
    """Give by what share of it single steps that no profiler saw vary: one standard deviation.

    Of how far above the median a tenth of them are: on the other side may be those of a host that
    is ahead. 0 where it is not known, or waits and lumps, which are left out, make steps vary.
    """
    recorded = study.recorded
    steps = None if recorded is None else recorded.steps
    if recorded is None or recorded.account is None or steps is None or steps.noise is None:
        return 0.0
    aside = _per_step(recorded.account, *_OUTSIDE, _DATA)
    if steps.profiled_only or not steps.median_ns or aside > _ASIDE * steps.mean_ns:
        return 0.0
    return max(0.0, (steps.p90_ns - steps.median_ns) / _TENTH / steps.median_ns)


def _of_device(steps: RunSteps, mean_ns: float) -> float:
    """Give the device's own step where the host's are too short to be true, else 0.

    After a pause (a profiler that stops waits for the device) the host is a thousand launches ahead
    again in a few short steps: over a short run their mean says less than the device needs.
    """
    own = steps.device_median_ns
    return float(own) if own is not None and steps.p10_ns < _AHEAD * own and mean_ns < own else 0.0


def waited_for(study: Study, least: float) -> LoaderUse | None:
    """Give the loader whose workers are waited for most, if that is so much of a step at least."""
    uses = () if study.recorded is None else study.recorded.loaders
    able = [one for one in uses if _has_workers(one) and (one.share or 0.0) >= least]
    return max(able, key=lambda one: one.share or 0.0, default=None)


def _has_workers(use: LoaderUse) -> bool:
    return use.workers is not None and use.workers.processes > 0


def _per_step(made: StepAccount, *prefixes: str) -> float:
    found = sum(ns for leaf, ns in made.account.leaves.items() if leaf.startswith(prefixes))
    return found / (made.account.steps or 1)


def _in_windows(account: Account) -> float:
    """Give what a step of the windows has of waits and lumps: of several steps the median.

    So does the replay that is compared with it (``replay.alpha``): a checkpoint in one step of four
    is in neither.
    """
    found = [
        sum(ns for leaf, ns in row.leaves.items() if leaf.startswith((*_OUTSIDE, _DATA)))
        for row in account.rows
    ]
    if len(found) >= _SEVERAL:
        return float(median(found))
    return sum(found) / account.steps if account.steps else 0.0
