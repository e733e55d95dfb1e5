"""The un-profiled step that a window is compared with: what both are made of alike.

Steps outside windows hold more or less of what is lumpy (checkpoints, evaluation, epoch turns), and
other waits for data: a profiled loop, being slower, hardly waits for workers, and the few batches
of a window are not like all others. Both are left out, and what the windows have of them put in
their place.
"""

from dataclasses import replace
from statistics import median
from typing import Final

from gapless.model.account import Account
from gapless.model.run import LoaderUse, RunSteps, StepAccount
from gapless.model.study import Study
from gapless.replay.alpha import Ahead
from gapless.study.recorded.account import WORK

_DATA: Final = "idle.data"
_OUTSIDE: Final = ("idle.io_main", "idle.gc")
_OURS: Final = "idle.profiler"
_SEVERAL: Final = 3  # steps: of so many, replays are judged by the median


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
    return max(left, device_step_ns(study.account, recorded.steps))


def ahead_of(study: Study) -> Ahead | None:
    """Give how short steps the host made, by itself; ``None`` where none was noted."""
    steps = None if study.recorded is None else study.recorded.steps
    if steps is None or steps.profiled_only or steps.host_ns is None:
        return None
    shortest, tenth = steps.host_ns
    return Ahead(float(shortest), float(tenth))


def drift_of(study: Study) -> float | None:
    """Give by what share of it as few steps as a window's miss the usual one; ``None``: unknown.

    Found from steps that no profiler saw (``recorded.drift``).
    """
    steps = None if study.recorded is None else study.recorded.steps
    return None if steps is None or steps.profiled_only else steps.drift


def device_step_ns(windows: Account, steps: RunSteps | None) -> float:
    """Give how long a device works for a step, in ns; 0.0 where no window saw one at work.

    The median of the windows' steps. Steps are at least as long, whatever the host's edges say: one
    that is ahead makes forty steps in the time of two. What a device took from step to step, where
    nobody traced it, is an upper bound: a window's batches may be larger than most, and tracing
    makes short kernels longer.
    """
    rows = [one for one in windows.rows if one.row.device is not None]
    work = [sum(ns for leaf, ns in row.leaves.items() if leaf.startswith(WORK)) for row in rows]
    own = None if steps is None else steps.device_median_ns
    found = float(median(work)) if work else 0.0
    return found if own is None else min(found, float(own))


def lifted(steps: RunSteps | None, windows: Study | None) -> RunSteps | None:
    """Give step times that are no shorter than what their device works for a step."""
    own = 0.0 if windows is None else device_step_ns(windows.account, steps)
    if steps is None or own <= steps.mean_ns:
        return steps
    rate = steps.samples_per_s
    return replace(
        steps,
        mean_ns=round(own),
        median_ns=max(steps.median_ns, round(own)),
        p90_ns=max(steps.p90_ns, round(own)),
        samples_per_s=None if rate is None else rate * steps.mean_ns / own,
    )


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
