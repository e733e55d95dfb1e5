"""Watch a recorded run, look by look, at a cost that bounds itself."""

import os
import platform
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gapless.launch.process_tree import Tree, find_by_spool
from gapless.launch.unobserved import contain_failures, describe_error
from gapless.live.activity import Activity, ActivityMeter
from gapless.live.gpus import held_reasons, open_gpus
from gapless.live.machine import MachineSampler
from gapless.live.pauses import Pause
from gapless.live.recent import RecentSteps, study_recent
from gapless.live.run_tail import GONE, RunNow, RunTail
from gapless.live.run_view import Moment, build_run_view, count_windows
from gapless.live.view import LiveView, RunView
from gapless.model.options import Options
from gapless.model.recording import Manifest
from gapless.model.study import Study
from gapless.store.run.manifest import RUNNING
from gapless.study import open_run

_RECENT_RATIO: Final = 200  # times what a look at the latest steps takes: until the next one
_STUDY_RATIO: Final = 250  # likewise a study of the whole run
_MIN_RECENT_S: Final = 2.0
_MIN_STUDY_S: Final = 15.0


@dataclass
class RunWatcher:
    """A run, and what is known of it so far."""

    folder: Path
    tail: RunTail = field(init=False)
    _sampler: MachineSampler | None = None
    _gpu_names: dict[str, str] = field(default_factory=dict[str, str])
    _meter: ActivityMeter = field(default_factory=ActivityMeter)
    _recent: RecentSteps | None = None
    _recent_pause: Pause = field(default_factory=lambda: Pause(_RECENT_RATIO, _MIN_RECENT_S))
    _study: Study | None = None
    _studied_ns: int = 0
    _study_pause: Pause = field(default_factory=lambda: Pause(_STUDY_RATIO, _MIN_STUDY_S))
    _studying: threading.Lock = field(default_factory=threading.Lock)
    _n_windows: int = 0  # that were there when it was looked at last
    _awaited_windows: int | None = None  # so many, and one that was asked for is there
    _failure: str | None = None  # why the whole run could not be studied
    _recent_failure: str | None = None
    _final_view: LiveView | None = None

    def __post_init__(self) -> None:
        self.tail = RunTail(self.folder)

    def look(self) -> LiveView:
        """Return what is to be seen now; of a run that is over always the same.

        Raises ``GaplessError`` for a run that cannot be read.
        """
        if self._final_view is not None:
            return self._final_view
        now_ns, run_now = time.monotonic_ns(), self.tail.follow()
        is_here = run_now.status == RUNNING and _is_here(run_now.document.manifest)
        if is_here:
            self._sample(run_now, now_ns)
        if self._recent is None or self._recent_pause.is_due() or run_now.status != RUNNING:
            self._study_recent(run_now)
        self._study_new_windows(count_windows(run_now.recording))
        activities = self._look_at_threads(run_now, now_ns) if is_here else {}
        figures = self._figures(run_now)
        moment = Moment(
            now_ns,
            run_now,
            self._study,
            self._studied_ns,
            self._recent,
            activities,
            is_here,
            figures,
        )
        view = self._live_view(run_now, build_run_view(moment, self._notes(run_now)), is_here)
        if run_now.status != RUNNING and self._is_studied_to_its_end(run_now.status):
            self._final_view = view
        return view

    def study_when_due(self) -> bool:
        """Study the whole run if that is due; return whether it was. May take seconds."""
        if not self._study_pause.is_due() or not self._studying.acquire(blocking=False):
            return False
        try:
            with self._study_pause.measure(), contain_failures() as failures:
                self._study = open_run(self.folder, Options(diagnose=False))
        finally:
            self._studying.release()
        if not failures:
            self._studied_ns = time.monotonic_ns()
            self._recent_pause.end()  # what windows saw belongs to the latest steps, too
        self._failure = _describe_failure("the whole run cannot be studied", failures)
        return True

    def _study_recent(self, run_now: RunNow) -> None:
        """Charge the latest steps; what was there before stays where that fails."""
        with self._recent_pause.measure(), contain_failures() as failures:
            self._recent = study_recent(run_now.recording, self._study)
        self._recent_failure = _describe_failure("the latest steps cannot be charged", failures)

    def await_window(self, n_windows: int) -> None:
        """Study the whole run as soon as it has so many windows: one was asked for."""
        self._awaited_windows = n_windows

    def _study_new_windows(self, n_windows: int) -> None:
        """Have the whole run studied at once where it has its first window, or one asked for."""
        awaited = self._awaited_windows
        if (n_windows and not self._n_windows) or (awaited is not None and n_windows >= awaited):
            self._awaited_windows = None
            self._study_pause.end()
        self._n_windows = n_windows

    def _is_studied_to_its_end(self, status: str) -> bool:
        """Return whether the study is of a run that is over; else have it made at once."""
        recorded = None if self._study is None else self._study.recorded
        if status == GONE or self._failure is not None:
            return True
        if recorded is not None and recorded.life.status != RUNNING:
            return True
        self._study_pause.end()
        return False

    def _sample(self, run_now: RunNow, now_ns: int) -> None:
        if self._sampler is None:
            self._sampler = MachineSampler(_tree_of(run_now))
            self._sampler.open()
            gpus = open_gpus()
            self._gpu_names = {} if gpus is None else gpus.names()
        self._sampler.sample(now_ns)

    def _look_at_threads(self, run_now: RunNow, now_ns: int) -> dict[int, Activity]:
        activities: dict[int, Activity] = {}
        for process in run_now.recording.processes:
            activity = self._meter.look(process.pid, now_ns) if process.end is None else None
            if activity is not None:
                activities[process.pid] = activity
        return activities

    def _notes(self, run_now: RunNow) -> list[str]:
        notes = [text for text in (self._failure, self._recent_failure) if text is not None]
        if run_now.status == GONE:
            notes.append("the run folder is gone: this is what was there last")
        elif run_now.status == RUNNING and not _is_here(run_now.document.manifest):
            host = run_now.document.manifest.host
            notes.append(f"it runs on {host}: the machine is shown as last recorded there")
        return notes

    def _figures(self, run_now: RunNow) -> dict[str, float]:
        """Return the machine's figures: sampled here, else as last recorded where the run was."""
        if self._sampler is not None and "cpu.total" in self._sampler.figures:
            return dict(self._sampler.figures)
        series = run_now.recording.samples.series
        return {name: values[-1] for name, (_, values) in series.items() if values}

    def _live_view(self, run_now: RunNow, run: RunView, is_here: bool) -> LiveView:  # noqa: FBT001
        figures = self._figures(run_now)
        return LiveView(
            host=run_now.document.manifest.host or platform.node(),
            taken_unix_ns=time.time_ns(),
            run=run,
            machine=figures,
            held=held_reasons(figures),
            gpu_names=self._gpu_names,
            processors=os.cpu_count() if is_here else None,
            processes=(),
            notes=() if self._sampler is None else tuple(self._sampler.notes),
        )


def _describe_failure(what: str, failures: Sequence[Exception]) -> str | None:
    return f"{what}: {describe_error(failures[0])}" if failures else None


def _is_here(manifest: Manifest) -> bool:
    return manifest.host in {"", platform.node()}


def _tree_of(run_now: RunNow) -> Tree:
    """Return the processes of a run: those below the first that knows of its spool."""
    spool = run_now.document.spool or Path(run_now.recording.path)
    starts = find_by_spool(spool)
    return Tree(min(starts, key=lambda pid: starts[pid], default=0), spool)
