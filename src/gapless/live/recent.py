"""What the latest steps of a run were spent on, with the sentences of the report.

The make-up of a step itself comes from the windows of the whole run, as far as that was studied.
"""

from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gapless import wire
from gapless.live.view import PaceView
from gapless.model.account import Account
from gapless.model.evidence import Evidence
from gapless.model.recording import Recording
from gapless.model.run import RunSteps
from gapless.model.study import Study
from gapless.pricing.words.verdict import verdict_of
from gapless.recorded.facts import facts
from gapless.recorded.loaders.waits import loader_waits
from gapless.recorded.steps.account import join_windows
from gapless.recorded.steps.loader_use import loader_uses
from gapless.recorded.steps.rows import TrainingRow, charge_training
from gapless.recorded.steps.step_times import run_steps
from gapless.recorded.training.processes import Training, select_steppers, trainings

_WAIT: Final = "data."
_MIN_CALLS: Final = 5  # of an optimizer, from which its calls may be the steps


class RecentSteps(Struct, frozen=True):
    """The latest steps of all ranks."""

    trainings: tuple[Training, ...]
    rows: tuple[TrainingRow, ...]  # of those that step
    steps: RunSteps | None
    account: Account | None
    sentence: str | None  # why a step takes as long as it does


def study_recent(recording: Recording, study: Study | None) -> RecentSteps:
    """Charge the latest steps; ``study``: of the run so far, for what its windows saw."""
    rank_trainings = trainings(recording)
    rows = [charge_training(training, loader_waits(training)) for training in rank_trainings]
    steppers = select_steppers(rank_trainings)
    stepper_ids = {id(training) for training in steppers}
    stepping_rows = tuple(row for row in rows if id(row.training) in stepper_ids)
    steps = run_steps(steppers, rows, with_noise=False)
    has_windows = study is not None and study.account.steps
    joined = join_windows(stepping_rows, study if has_windows else None, steps, undisturbed=False)
    sentence = None
    if study is not None and study.recorded is not None and joined is not None:
        recent_study = replace(
            study,
            recorded=replace(
                study.recorded, steps=steps, account=joined, loaders=loader_uses(rows)
            ),
        )
        verdict = verdict_of(Evidence(recent_study, facts(recording), None), ())
        sentence = None if verdict is None else verdict.sentence
    return RecentSteps(
        rank_trainings, stepping_rows, steps, None if joined is None else joined.account, sentence
    )


def pace_of(steps: RunSteps | None) -> PaceView | None:
    """Return the figures of steps that a screen has room for."""
    if steps is None:
        return None
    return PaceView(
        steps.regular,
        steps.mean_ns,
        steps.median_ns,
        steps.p10_ns,
        steps.p90_ns,
        steps.samples_per_s,
    )


def wait_share(row: TrainingRow) -> float | None:
    """Return the share of waiting for data in the latest steps of a rank."""
    leaves = row.step_leaves
    wall_ns = sum(leaves.values())
    waited_ns = sum(ns for leaf, ns in leaves.items() if leaf.startswith(_WAIT))
    return waited_ns / wall_ns if wall_ns else None


def count_steps(training: Training) -> int | None:
    """Return how many steps a process has made; ``None`` where no optimizer counts them."""
    marks = training.process.marks
    is_step = marks.kind == wire.STEP
    counts = [
        int(marks.value[is_step & (marks.subject == subject)].max()) + 1
        for subject in np.unique(marks.subject[is_step]).tolist()
    ]
    return min(
        (count for count in counts if count >= _MIN_CALLS), default=max(counts, default=None)
    )
