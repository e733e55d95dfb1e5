"""A whole trial of a command: what is known of it, what is tried, the arms, the result."""

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gapless.errors import GaplessError, UsageError
from gapless.launch.trial import offline
from gapless.launch.trial.side_effects import find_side_effects
from gapless.model.edit import Applicability, Edit, Proposal, Wrap
from gapless.model.facts import Facts
from gapless.model.recording import Recording
from gapless.model.trial import Trial
from gapless.pricing.conclude import conclude
from gapless.pricing.propose import predict_together
from gapless.recorded.facts import facts as facts_of
from gapless.store.run.sources import write_sources
from gapless.study import Options
from gapless.study.build_run import account_run, prices_of_run
from gapless.verify.arms import arm, page_cache, room
from gapless.verify.arms.alternating import run_pair
from gapless.verify.arms.steady import read_steps
from gapless.verify.in_process import choose_mode, conduct_both_ways
from gapless.verify.requests import (
    Shortlist,
    StudyForecast,
    TrialRequest,
    choose_candidates,
    stack_edits,
)
from gapless.verify.specs import (
    UNEDITED,
    ArmMode,
    ArmRun,
    ArmSpec,
    Candidate,
    Job,
    RunArm,
    RunPair,
    TrialSettings,
)

_SCOUT_STEPS: Final = 40  # of a command that was never recorded, to know its facts
_SCOUT_S: Final = 15.0
_CEILINGS_S: Final = 120.0  # the default budgets of a trial: of ceilings alone, of others
_DEFAULT_S: Final = 240.0
_PAIR_START_S: Final = 120.0  # until both arms of a pair step, at most
_MAX_STRETCH: Final = 4  # times as long as it may take, where two pairs do not fit
_NO_TRAINING: Final = "no process of it was seen to step an optimizer or to load batches"
_NO_PROPOSAL: Final = "the report of the run proposes nothing that changes no result: ceilings"

Progress = Callable[[str], None]


class TrialTask(Struct, frozen=True):
    """What to try of which command, where, and for how long."""

    request: TrialRequest
    command: tuple[str, ...]
    folder: Path  # working folder
    home: Path  # of runs
    has_private_view: bool  # arms see the working folder through a view of their own
    budget_s: float | None = None  # None: as usual
    max_budget_s: float | None = None  # to which that may grow for two pairs of arms
    out: Path | None = None  # where the arms' records go
    steps: int | None = None  # of an arm; None: as needed
    candidates: tuple[Candidate, ...] = ()  # what is tried; none: what is requested
    base_edits: tuple[Edit, ...] = ()  # that both sides carry: what is tried comes on top
    windows: bool = True  # an arm more of each side shows where its steps go
    mode: ArmMode = ArmMode.FRESH_FIRST
    apart: bool = False  # arms of a pair run one after the other, not in turns


class ScoutRun(Struct, frozen=True):
    """A command's first run, which is the trial's discarded arm as well."""

    recording: Recording
    run: ArmRun
    start_s: float


class TrialOutcome(Struct, frozen=True):
    """A trial, the run that it is about, and all that was proposed for it."""

    recording: Recording
    trial: Trial | None  # None: nothing could be tried
    proposals: tuple[Proposal, ...]
    notes: tuple[str, ...] = ()  # why nothing could be


def attempt(
    task: TrialTask, recording: Recording | None, report_progress: Progress
) -> TrialOutcome:
    """Try what is requested; a command that was never recorded is run once before.

    Raises ``GaplessError`` where it does not train, or a name is not known.
    """
    if recording is None:
        scout_run = scout(task, report_progress)
        return _attempt_recorded(task, scout_run.recording, scout_run, report_progress)
    return _attempt_recorded(task, recording, None, report_progress)


def _attempt_recorded(
    task: TrialTask, recording: Recording, scout_run: ScoutRun | None, report_progress: Progress
) -> TrialOutcome:
    facts = facts_of(recording)
    shortlist = (
        Shortlist(task.candidates, ())
        if task.candidates
        else choose_candidates(
            task.request, facts, forecast_study(recording, task.request, report_progress)
        )
    )
    if not shortlist.candidates:
        return TrialOutcome(recording, None, shortlist.proposals, shortlist.notes)
    folder = task.out or Path(recording.path) / "trials" / _new_id(Path(recording.path))
    plan = _plan_arms(task, folder, page_cache.find_cold_files(recording, facts))
    settings = _trial_settings(task, recording, facts, plan, shortlist)
    if _can_pair(task, plan, recording):
        steps = read_steps(recording)
        settings = replace(
            settings,
            run_pair=_make_pair_runner(plan, task.base_edits),
            periods=() if steps is None else steps.periods,
        )
    if scout_run is None:
        settings = choose_mode(shortlist.candidates, settings, recording)
    else:
        is_switched = settings.mode is ArmMode.SWITCHED
        mode = ArmMode.SWITCHED if is_switched else ArmMode.FRESH
        settings = replace(settings, start_s=scout_run.start_s, mode=mode)
    first_run = None if scout_run is None else scout_run.run
    try:
        offline.make(folder / "offline")
    except OSError as error:
        msg = f"{folder} cannot be written: {error.strerror}; name another place with --out DIR"
        raise UsageError(msg) from error
    try:
        trial = conduct_both_ways(
            shortlist.candidates,
            settings,
            _make_runner(plan, task.base_edits),
            report_progress,
            first_run,
        )
    except (UsageError, KeyboardInterrupt):
        if task.out is None:  # nothing came of it
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return TrialOutcome(recording, _add_notes(trial, task, shortlist), shortlist.proposals)


def forecast_study(
    recording: Recording, request: TrialRequest, report_progress: Progress
) -> StudyForecast:
    """Return what the study of a run expects of edits; nothing for ceilings alone."""
    if not (request.proposed or request.fixes or request.settings):
        return StudyForecast()
    account = account_run(recording, Options(), report_progress)
    report_progress("predicting")
    run_prices = prices_of_run(account, cached=True)
    proposals = conclude(run_prices).proposals if request.proposed else ()
    return StudyForecast(
        proposals, lambda combination: predict_together(run_prices, combination).speedup
    )


def scout(task: TrialTask, report_progress: Progress, *, takes_window: bool = False) -> ScoutRun:
    """Run a command for some steps, as a run like others; it carries the base edits of the task.

    Raises ``GaplessError`` where nothing was recorded of it.
    """
    start_s = time.monotonic()
    report_progress("running the command once, to know it")
    log_folder = task.home.parent / "offline"
    offline.make(log_folder)
    plan = replace(
        _plan_arms(task, task.home, ()), variables=offline.variables(os.environ, log_folder)
    )
    edits = (*task.base_edits, *logging_edits(log_folder))
    spec = ArmSpec(UNEDITED, 0, edits, _SCOUT_STEPS, _SCOUT_S, takes_window)
    scout_arm, recording = arm.run(plan, spec)
    if scout_arm.failed is not None or recording is None:
        hint = (
            ""
            if scout_arm.folder is None
            else f"; what it printed is in {scout_arm.folder}/{arm.OUTPUT}"
        )
        why = _NO_TRAINING if scout_arm.failed in {None, arm.NO_STEPS} else scout_arm.failed
        raise GaplessError(f"the command cannot be tried: {why}{hint}")
    with suppress(OSError):
        write_sources(recording)
    return ScoutRun(
        recording, ArmRun(recording, scout_arm.code, foreign=scout_arm.foreign), start_s
    )


def _plan_arms(task: TrialTask, out: Path, files: tuple[Path, ...]) -> arm.ArmPlan:
    return arm.ArmPlan(
        command=task.command,
        out=out,
        private_folder=task.folder if task.has_private_view else None,
        variables=offline.variables(os.environ, out / "offline"),
        cold=files,
    )


def _make_runner(plan: arm.ArmPlan, base_edits: tuple[Edit, ...]) -> RunArm:
    """Return what runs an arm: both sides carry the base, and keep loggers in its folder."""
    run_arm, log_edits = arm.make_runner(plan), logging_edits(plan.out / "offline")
    return lambda spec: run_arm(
        replace(spec, edits=(*stack_edits(spec.edits, base_edits), *log_edits))
    )


def _make_pair_runner(plan: arm.ArmPlan, base_edits: tuple[Edit, ...]) -> RunPair:
    """Return what runs two arms that step in turns, as ``_make_runner`` does one."""
    log_edits = logging_edits(plan.out / "offline")

    def run_both(*specs: ArmSpec) -> tuple[ArmRun, ArmRun]:
        edited = [
            replace(spec, edits=(*stack_edits(spec.edits, base_edits), *log_edits))
            for spec in specs
        ]
        deadline_s = min(plan.deadline_s, _PAIR_START_S + max(spec.seconds for spec in specs))
        limited = replace(plan, deadline_s=deadline_s)  # one may wait for a lock that the other has
        first, second = (
            ArmRun(recording, outcome.code, outcome.failed, foreign=outcome.foreign)
            for outcome, recording in run_pair([(limited, spec) for spec in edited])
        )
        return first, second

    return run_both


def _can_pair(task: TrialTask, plan: arm.ArmPlan, recording: Recording) -> bool:
    """Return whether two arms of a command may run at the same time.

    They would write the same files without views of their own, or outside of these; read what is
    meant to be cold into memory for each other; and, of several ranks, want the same ports.
    """
    effects = find_side_effects(recording)
    n_training = sum(process.role == "training" for process in recording.processes)
    return (
        task.has_private_view
        and not task.apart
        and not plan.cold
        and not (effects.paths or effects.stores)
        and n_training == 1
        and room.explain_lack(recording.samples) is None
    )


def logging_edits(folder: Path) -> tuple[Edit, ...]:
    """Return the edits that keep loggers in a folder; variables are those of the arms' plan."""
    return tuple(edit for edit in offline.edits({}, folder) if isinstance(edit, Wrap))


def _trial_settings(
    task: TrialTask, recording: Recording, facts: Facts, plan: arm.ArmPlan, shortlist: Shortlist
) -> TrialSettings:
    ablations_only = all(
        candidate.applicability is Applicability.ABLATION for candidate in shortlist.candidates
    )
    usual_s = _CEILINGS_S if ablations_only else _DEFAULT_S
    return TrialSettings(
        id=plan.out.name,
        command=task.command,
        run=recording.manifest.id,
        job=measure_job(recording, facts),
        budget_s=usual_s if task.budget_s is None else task.budget_s,
        max_budget_s=_MAX_STRETCH * usual_s if task.budget_s is None else task.max_budget_s,
        cache="cold" if plan.cold else "warm",
        steps=task.steps,
        # ranks would switch at different steps
        mode=ArmMode.FRESH if facts.world.ranks > 1 else task.mode,
        windows=task.windows
        and not ablations_only,  # ablations have no accounts of a training that could be
        pairs=2 if ablations_only else 3,
    )


def measure_job(recording: Recording, facts: Facts) -> Job | None:
    """Return how long the recorded run was; ``None`` where it was cut short."""
    is_complete = recording.manifest.exit_code == 0 and recording.manifest.stopped_by is None
    is_complete = is_complete and all(
        process.end_kind != "trial" for process in recording.processes
    )  # a first run of ours
    if not is_complete or facts.world.steps == 0:
        return None
    turns = max((loader.iterations - 1 for loader in facts.loaders if loader.trains), default=0)
    return Job(facts.world.steps, max(0, turns))


def _add_notes(trial: Trial, task: TrialTask, shortlist: Shortlist) -> Trial:
    """Add notes on what was requested and not tried."""
    notes = [
        f"not tried: {proposal.fix}: {proposal.refused}"
        for proposal in shortlist.proposals
        if proposal.refused
    ]
    notes += shortlist.notes
    notes += [
        f"nothing to change: {proposal.fix}: {proposal.summary}"
        for proposal in shortlist.proposals
        if proposal.refused is None and not proposal.edits
    ]
    if task.request.proposed and all(
        candidate.applicability is Applicability.ABLATION for candidate in shortlist.candidates
    ):
        notes.append(_NO_PROPOSAL)
    return replace(trial, notes=(*trial.notes, *notes))


def _new_id(run: Path) -> str:
    """Return the name of the next trial of a run."""
    for number in range(1, 10_000):
        if not (run / "trials" / f"{number:02d}").exists():
            return f"{number:02d}"
    raise UsageError(f"{run}/trials holds too many trials; delete some")
