"""The un-profiled step that a window is compared with, reduced to what both have in common.

Steps outside windows hold more or less of what is lumpy (checkpoints, evaluation, epoch turns), and
other waits for data: a profiled loop, being slower, hardly waits for workers, and the few batches
of a window are not like all others. Both are left out and replaced by what the windows have of
them. But what the training thread loads itself is its own work: tracing makes it longer like all
else, and only where it is shorter in the windows are their batches others.
"""

from statistics import median
from typing import Final

from msgspec.structs import replace

from gapless.model.account import Account
from gapless.model.evidence import Evidence
from gapless.model.leaf import DEVICE_WORK
from gapless.model.run import LoaderUse, RunSteps, StepAccount
from gapless.model.study import Study
from gapless.replay.predict.alpha import PlainSteps

_DATA: Final = "idle.data"
OUTSIDE: Final = ("idle.io_main", "idle.gc")
REPLACED: Final = (*OUTSIDE, _DATA)
_PROFILER_LEAF: Final = "idle.profiler"
_MIN_MEDIAN_STEPS: Final = 3  # steps: with so many, replays are judged by the median


def unprofiled_ns(evidence: Evidence, leaves: tuple[str, ...] = REPLACED) -> float | None:
    """Return the mean un-profiled step, with waits and lumps as the windows have them.

    ``None`` where no such step was recorded, or nothing would be left of it. ``leaves``: what is as
    in the windows, instead of what plain steps have of it.
    """
    steps, step_account = evidence.run_steps, evidence.step_account
    if step_account is None or steps is None:
        return None
    account, windows = step_account.account, evidence.study.account
    if steps.profiled_only or not account.steps:
        return None
    if _DATA in leaves and _loads_slower(evidence, step_account):
        leaves = tuple(leaf for leaf in leaves if leaf != _DATA)
    removed_ns = _per_step(step_account, *leaves)
    # Hooks cost the same in windows; starting a profiler makes a few steps longer than most.
    rare_ns = steps.mean_ns - steps.median_ns
    removed_ns += max(0.0, min(_per_step(step_account, _PROFILER_LEAF), rare_ns))
    step_ns = account.wall_ns / account.steps - removed_ns + _windows_ns(windows, leaves)
    if step_ns <= 0:
        return None
    return max(step_ns, device_step_ns(windows, steps))


def ahead_of(evidence: Evidence) -> PlainSteps | None:
    """Return how short the host's own steps were; ``None`` where none was recorded."""
    steps = evidence.run_steps
    if steps is None or steps.profiled_only or steps.host_ns is None:
        return None
    shortest, tenth = steps.host_ns
    return PlainSteps(float(shortest), float(tenth))


def drift_of(evidence: Evidence) -> float | None:
    """Return the relative error of as few steps as a window holds; ``None``: unknown.

    Found from steps that no profiler saw (``recorded.steps.drift``).
    """
    steps = evidence.run_steps
    return None if steps is None or steps.profiled_only else steps.drift


def device_step_ns(windows: Account, steps: RunSteps | None) -> float:
    """Return how long a device works for a step, in ns; 0.0 where no window saw one at work.

    This is the median of the windows' steps. Steps are at least as long, whatever the host's edges
    show: a host that is ahead makes forty steps in the time of two. What a device took from step to
    step without tracing is an upper bound: a window's batches may be larger than most, and tracing
    makes short kernels longer.
    """
    rows = [row for row in windows.rows if row.row.device is not None]
    work = [
        sum(ns for leaf, ns in row.leaves.items() if leaf.startswith(DEVICE_WORK)) for row in rows
    ]
    device_ns = None if steps is None else steps.device_median_ns
    window_ns = float(median(work)) if work else 0.0
    return window_ns if device_ns is None else min(window_ns, float(device_ns))


def raise_to_device(steps: RunSteps | None, windows: Study | None) -> RunSteps | None:
    """Return step times, raised to what their device works for a step."""
    device_ns = 0.0 if windows is None else device_step_ns(windows.account, steps)
    if steps is None or device_ns <= steps.mean_ns:
        return steps
    rate = steps.samples_per_s
    return replace(
        steps,
        mean_ns=round(device_ns),
        median_ns=max(steps.median_ns, round(device_ns)),
        p90_ns=max(steps.p90_ns, round(device_ns)),
        samples_per_s=None if rate is None else rate * steps.mean_ns / device_ns,
    )


def most_waited_loader(evidence: Evidence, min_share: float) -> LoaderUse | None:
    """Return the loader with the longest waits for workers, if they are long enough a share."""
    candidates = [
        use for use in evidence.loader_uses if _has_workers(use) and (use.share or 0.0) >= min_share
    ]
    return max(candidates, key=lambda use: use.share or 0.0, default=None)


def _loads_slower(evidence: Evidence, step_account: StepAccount) -> bool:
    """Return whether the thread that launches loads itself, and takes longer for it in windows."""
    uses = evidence.loader_uses
    loads_itself = evidence.on_device and bool(uses) and not any(map(_has_workers, uses))
    windows_ns = _windows_ns(evidence.study.account, (_DATA,))
    return loads_itself and windows_ns > _per_step(step_account, _DATA)


def _has_workers(use: LoaderUse) -> bool:
    return use.workers is not None and use.workers.processes > 0


def _per_step(step_account: StepAccount, *prefixes: str) -> float:
    total_ns = sum(
        ns for leaf, ns in step_account.account.leaves.items() if leaf.startswith(prefixes)
    )
    return total_ns / (step_account.account.steps or 1)


def _windows_ns(account: Account, leaves: tuple[str, ...]) -> float:
    """Return the waits and lumps in a step of the windows: the median of several steps.

    The replay that is compared with it does the same (``replay.predict.alpha``): a checkpoint in
    one step of four is in neither.
    """
    row_ns = [
        sum(ns for leaf, ns in row.leaves.items() if leaf.startswith(leaves))
        for row in account.rows
    ]
    if len(row_ns) >= _MIN_MEDIAN_STEPS:
        return float(median(row_ns))
    return sum(row_ns) / account.steps if account.steps else 0.0
