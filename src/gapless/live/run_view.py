"""A run at one moment as ``RunView``: its ranks, loaders, accounts, and the present cause."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from gapless import wire
from gapless.live.activity import Activity
from gapless.live.gpus import held_reasons
from gapless.live.loading import loader_views
from gapless.live.processes import read_environment
from gapless.live.recent import RecentSteps, count_steps, pace_of, wait_share
from gapless.live.run_tail import RunNow, elapsed_ns
from gapless.live.view import RankView, RunView
from gapless.model.recording import Process, Recording
from gapless.model.run import RecordedRun
from gapless.model.study import Study
from gapless.recorded.training.processes import Training, trainings
from gapless.store.logs.fields import parse
from gapless.store.run.manifest import RUNNING

_STALL_NS: Final = 5 * 10**9  # without a step: that long, and so many times a usual one
_STALL_STEPS: Final = 10
_S: Final = 10**9
_MIN_QUEUE_SHARE: Final = 0.2  # of the time a thread is ready to run, and does not
_MIN_FOREIGN_CORES: Final = 0.25
_SERIOUS_REASONS: Final = frozenset({"heat", "a power brake", "a slow-down of the hardware"})
_WINDOWS: Final = "windows"  # what the recorder calls them where it makes none


class Moment(Struct, frozen=True):
    """What is known of a run at one moment."""

    now_ns: int  # CLOCK_MONOTONIC
    run_now: RunNow
    study: Study | None  # of the run so far
    studied_ns: int  # when that was made
    recent: RecentSteps | None
    activities: Mapping[int, Activity]  # what the main threads of its processes do
    is_here: bool  # it runs, and on this machine
    figures: Mapping[str, float]  # of the machine, as the samplers name them

    def look(self, pid: int) -> Activity | None:
        """Return what the main thread of a process does; ``None``: not known."""
        return self.activities.get(pid)


def build_run_view(moment: Moment, notes: Sequence[str]) -> RunView:
    """Return what is to be shown of a run."""
    run_now, recorded = moment.run_now, _recorded_run(moment.study)
    manifest, is_running = run_now.document.manifest, run_now.status == RUNNING
    rank_trainings = trainings(run_now.recording)
    ranks = tuple(_rank_view(training, moment) for training in rank_trainings)
    loaders = loader_views(rank_trainings, moment.look) if is_running else ()
    recent = moment.recent
    whole_account = None if recorded is None else recorded.account
    counts = [rank.steps for rank in ranks if rank.steps is not None]
    if recorded is not None and recorded.steps is not None:
        counts.append(recorded.steps.count)
    age_ns = moment.now_ns - run_now.newest_ns if run_now.newest_ns is not None else None
    return RunView(
        id=manifest.id,
        path=run_now.recording.path,
        command=manifest.command,
        status=run_now.status,
        exit_code=manifest.exit_code,
        elapsed_ns=elapsed_ns(manifest),
        behind_ns=age_ns if moment.is_here else None,
        steps=max(counts, default=None),
        recent=None if recent is None else pace_of(recent.steps),
        whole=None if recorded is None else pace_of(recorded.steps),
        recent_account=None if recent is None or not is_running else recent.account,
        account=None if whole_account is None else whole_account.account,
        account_age_ns=moment.now_ns - moment.studied_ns if moment.study is not None else None,
        refined_by=0 if whole_account is None else whole_account.refined_by,
        windows=count_windows(run_now.recording),
        no_windows=_why_no_windows(moment),
        cause=_present_cause(moment, ranks) if is_running else _last_cause(recent),
        ranks=ranks,
        loaders=loaders,
        notes=tuple(notes),
    )


def count_windows(recording: Recording) -> int:
    """Return how many windows are kept so far, of the rank with most."""
    counts = [
        sum(window.discarded is None for window in process.windows)
        for process in recording.processes
    ]
    return max(counts, default=0)


def _why_no_windows(moment: Moment) -> str | None:
    """Return why there will be no window, as the recorder said it, or as it was told to."""
    processes = moment.run_now.recording.processes
    for process in processes:
        for unobserved in process.unobserved:
            if unobserved.what == _WINDOWS:
                return unobserved.why
    if moment.is_here and any(map(_wants_no_windows, processes)):
        return "the run was started with --no-windows"
    return None


def _wants_no_windows(process: Process) -> bool:
    """Return whether the recorder of a training process was told to make no windows."""
    if process.worker is not None or process.end is not None:
        return False
    options = parse(read_environment(process.pid).get(wire.OPTIONS, "").encode()) or {}
    return options.get("windows") is False


def _recorded_run(study: Study | None) -> RecordedRun | None:
    return None if study is None else study.recorded


def _rank_view(training: Training, moment: Moment) -> RankView:
    ends = training.edges.ends
    lengths_ns = np.diff(ends)[training.edges.is_single]
    activity = moment.look(training.process.pid)
    shares = (
        {}
        if moment.recent is None
        else {
            (row.training.process.rank, row.training.process.pid): wait_share(row)
            for row in moment.recent.rows
        }
    )
    return RankView(
        rank=training.process.rank,
        pid=training.process.pid,
        steps=count_steps(training),
        since_step_ns=moment.now_ns - int(ends[-1]) if len(ends) and moment.is_here else None,
        median_ns=round(float(np.median(lengths_ns))) if len(lengths_ns) else None,
        wait_share=shares.get((training.process.rank, training.process.pid)),
        doing=None if activity is None else activity.describe(),
    )


def _present_cause(moment: Moment, ranks: Sequence[RankView]) -> str | None:
    """Say why steps take as long as they do now, or why none ends."""
    if not ranks:
        return "no process of the run has stepped or loaded data yet"
    stepping = [rank for rank in ranks if rank.since_step_ns is not None]
    if not stepping:
        return f"no step has ended yet: {_describe_doing(ranks[0])}"
    slowest = max(stepping, key=lambda rank: rank.since_step_ns or 0)
    silent_ns, usual_ns = slowest.since_step_ns or 0, slowest.median_ns or 0
    if silent_ns > max(_STALL_NS, _STALL_STEPS * usual_ns):
        whose = f" of rank {slowest.rank}" if len(ranks) > 1 else ""
        return f"no step{whose} has ended for {silent_ns / _S:.0f} s: {_describe_doing(slowest)}"
    parts = [_last_cause(moment.recent), *_disturbances(moment, ranks)]
    return "; ".join(filter(None, parts)) or None


def _disturbances(moment: Moment, ranks: Sequence[RankView]) -> Iterator[str]:
    """Say what keeps a training from its processors and GPUs now; no account shows that."""
    activities = {rank: moment.look(rank.pid) for rank in ranks}
    queues = {rank: activity.ready or 0.0 for rank, activity in activities.items() if activity}
    longest = max(queues, key=lambda rank: queues[rank], default=None)
    if longest is not None and queues[longest] >= _MIN_QUEUE_SHARE:
        whose = f" of rank {longest.rank}" if len(ranks) > 1 else ""
        foreign = moment.figures.get("cpu.foreign", 0.0) / 100
        foreign_words = (
            f", of which others use {foreign:.1f}" if foreign >= _MIN_FOREIGN_CORES else ""
        )
        share = f"{queues[longest] * 100:.0f} % of the time"
        yield f"the main thread{whose} waits {share} for a processor{foreign_words}"
    for gpu, reasons in held_reasons(moment.figures).items():
        serious = [reason for reason in reasons if reason in _SERIOUS_REASONS]
        if serious:
            yield f"the clock of {gpu} is held back by {' and '.join(serious)}"


def _last_cause(recent: RecentSteps | None) -> str | None:
    return None if recent is None else recent.sentence


def _describe_doing(rank: RankView) -> str:
    return (
        "nothing is known of its thread" if rank.doing is None else f"its main thread {rank.doing}"
    )
