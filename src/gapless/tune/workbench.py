"""The workbench of a real tuning: records and trials of the command, states in its run's folder."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gapless.catalogue.declare import listing
from gapless.errors import GaplessError
from gapless.model.account import Account
from gapless.model.edit import Edit, Proposal
from gapless.model.recording import Recording
from gapless.model.trial import Trial
from gapless.model.tuning import TuningState
from gapless.pricing.conclude import conclude
from gapless.pricing.price import Prices
from gapless.pricing.propose import predict_together
from gapless.recorded.facts import facts as facts_of
from gapless.store.run import trials, tunings
from gapless.store.run.recordings import load
from gapless.study import Options, study_recording
from gapless.study.build_run import account_run, prices_of_run
from gapless.tune.choice import Agenda, edits_of
from gapless.tune.rounds import MeasureTask, TimeLimit, Workbench
from gapless.verify import trial as trials_of_command
from gapless.verify.requests import TrialRequest, check_permission, make_candidate
from gapless.verify.specs import ArmMode, Candidate
from gapless.verify.trial import TrialTask, scout

ARMS: Final = "tuning"  # in the folder of the run: records and arms on top of kept fixes

Progress = Callable[[str], None]


class TuningTask(Struct, frozen=True):
    """What to tune, how, and what may be tried of it."""

    trial: TrialTask  # the command, its folder, what may change
    run: Path  # folder of the recorded run that it begins with
    fixes: tuple[str, ...] = ()  # only these; none: what is proposed
    skipped: tuple[str, ...] = ()  # names that are not tried

    @property
    def request(self) -> TrialRequest:
        """What may change."""
        return self.trial.request


def make_workbench(task: TuningTask, report_progress: Progress) -> Workbench:
    """Return the bench on which a command is tuned."""
    quiet = replace(task.trial, home=task.run / ARMS / "records")

    def record(edits: tuple[Edit, ...]) -> str:
        quiet.home.mkdir(parents=True, exist_ok=True)
        scouted = scout(replace(quiet, base_edits=edits), report_progress, takes_window=True)
        return str(scouted.recording.path)

    def measure(measured: MeasureTask) -> Trial:
        trial_task = replace(
            _limit_task(task, measured.limit, [make_candidate(measured.proposal)]),
            base_edits=measured.base_edits,
            windows=False,
            mode=ArmMode.FRESH if measured.is_fresh else task.trial.mode,
        )
        words = measured.proposal.fix
        if measured.base_edits:
            words += f", on top of {len(measured.base_edits)} edits"

        def report_arm(line: str) -> None:
            report_progress(f"{words}: {line}")

        return _attempt(trial_task, load(Path(measured.record)), report_arm)

    def prove(state: TuningState, limit: TimeLimit) -> Trial:
        trial_task = replace(_limit_task(task, limit, [join_fixes(state)]), mode=ArmMode.FRESH)
        trial = _attempt(
            trial_task, load(task.run), lambda line: report_progress(f"final proof: {line}")
        )
        trials.write(trial, task.run)
        return _add_accounts(trial, task.run, state)

    return Workbench(
        record=record,
        propose=lambda path: propose(task, load(Path(path)), report_progress),
        measure=measure,
        prove=prove,
        save=lambda state: tunings.write_state(state, task.run),
        clock=time.monotonic,
        report_progress=report_progress,
    )


def join_fixes(state: TuningState) -> Candidate:
    """Return all that is kept as one side of a trial."""
    worst = max(state.fixes, key=lambda fix: list(type(fix.applicability)).index(fix.applicability))
    return Candidate(
        fixes=tuple(dict.fromkeys(fix.fix for fix in state.fixes)),
        summary=", ".join(dict.fromkeys(fix.summary for fix in state.fixes)),
        edits=edits_of(state.fixes),
        applicability=worst.applicability,
    )


def propose(task: TuningTask, recording: Recording, report_progress: Progress) -> Agenda:
    """Return what is proposed for a record, as far as it may be tried."""
    account = account_run(recording, Options(), report_progress)
    report_progress("predicting")
    prices = prices_of_run(account, cached=True)
    proposals = (
        _propose_named(task.fixes, recording, prices) if task.fixes else conclude(prices).proposals
    )
    permitted = [check_permission(proposal, task.request) for proposal in proposals]
    refusals = [
        f"{proposal.fix} ({proposal.summary}): {proposal.refused}"
        for proposal in permitted
        if proposal.refused is not None
    ]
    skipped = [proposal.fix for proposal in permitted if proposal.fix in task.skipped]
    return Agenda(
        proposals=tuple(
            proposal
            for proposal in permitted
            if proposal.edits and proposal.refused is None and proposal.fix not in skipped
        ),
        refusals=(*refusals, *(f"{name}: --skip" for name in dict.fromkeys(skipped))),
    )


def _propose_named(
    names: tuple[str, ...], recording: Recording, prices: Prices
) -> tuple[Proposal, ...]:
    facts = facts_of(recording)
    return tuple(
        replace(proposal, speedup=predict_together(prices, [proposal]).speedup)
        for name in names
        for proposal in listing.propose_named(name, facts)
    )


def _limit_task(task: TuningTask, limit: TimeLimit, candidates: list[Candidate]) -> TrialTask:
    return replace(
        task.trial,
        budget_s=limit.usual_s,
        max_budget_s=limit.max_s,
        out=_next_folder(task.run / ARMS),
        candidates=tuple(candidates),
    )


def _next_folder(folder: Path) -> Path:
    """Return a folder for the next trial: trials of a tuning are numbered on."""
    numbers = [int(path.name[1:]) for path in folder.glob("t[0-9]*") if path.name[1:].isdigit()]
    return folder / f"t{max(numbers, default=0) + 1:02d}"


def _attempt(trial_task: TrialTask, recording: Recording, report_progress: Progress) -> Trial:
    trial = trials_of_command.attempt(trial_task, recording, report_progress).trial
    if trial is None:
        raise GaplessError("nothing could be tried")
    return trial


def _add_accounts(trial: Trial, run: Path, state: TuningState) -> Trial:
    """Take accounts that the proof had no time for from the records before and after."""
    side = trial.sides[0]
    if (trial.account is not None and side.account is not None) or state.record is None:
        return trial
    before, after = (_read_account(path) for path in (run, Path(state.record)))
    return replace(trial, account=before, sides=(replace(side, account=after),))


def _read_account(path: Path) -> Account | None:
    recorded = study_recording(load(path), Options(diagnose=False)).recorded
    return None if recorded is None or recorded.account is None else recorded.account.account
