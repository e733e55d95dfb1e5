"""A whole trial of a command: what is known of it, what is tried, the arms, the result."""

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gapless.errors import GaplessError, UsageError
from gapless.launch import offline
from gapless.model.edit import Applicability, Edit, Proposal, Wrap
from gapless.model.facts import Facts
from gapless.model.recording import Recording
from gapless.model.trial import Trial
from gapless.study import Options
from gapless.study.concluding import conclude
from gapless.study.propose import foretold
from gapless.study.recorded.facts import facts as facts_of
from gapless.study.recorded.making import accounted, prices
from gapless.verify import arm, checking, cold
from gapless.verify.budget import forecast
from gapless.verify.plan import conduct
from gapless.verify.wanted import UNEDITED, Job, Order, Ran, RunArm, TrialSettings
from gapless.verify.wishes import Chosen, Expected, Wish, choose

_SCOUT_STEPS: Final = 40  # of a command that was never recorded, to know its facts
_SCOUT_S: Final = 15.0
_CEILINGS_S: Final = 120.0  # that a trial takes if nobody says: of ceilings alone, of others
_OTHERS_S: Final = 240.0
_STRETCH: Final = 4  # times as long it may take, where two pairs do not fit
_NO_TRAINING: Final = "no process of it was seen to step an optimizer or to load batches"
_NO_PROPOSAL: Final = "the report of the run proposes nothing that changes no result: ceilings"
_BLOCKED: Final = 0.02  # of a fetch: above that, reads of the disk are part of what is measured

Say = Callable[[str], None]


@dataclass(frozen=True)
class Asked:
    """What is to be tried of which command, where, and for how long."""

    wish: Wish
    command: tuple[str, ...]
    folder: Path  # working folder
    home: Path  # of runs
    private: bool  # arms see the working folder through a view of their own
    budget_s: float | None = None  # None: as usual
    out: Path | None = None  # where the arms' records go
    steps: int | None = None  # of an arm; None: as needed


@dataclass(frozen=True)
class Scouted:
    """A command's first run, which is the trial's discarded arm as well."""

    recording: Recording
    ran: Ran
    begun: float


@dataclass(frozen=True)
class Tried:
    """A trial, the run that it is about, and all that was proposed for it."""

    recording: Recording
    trial: Trial | None  # None: nothing could be tried
    proposals: tuple[Proposal, ...]
    notes: tuple[str, ...] = ()  # why nothing could be


def attempt(asked: Asked, recording: Recording | None, say: Say) -> Tried:
    """Try what is asked for; a command that was never recorded is run once before.

    Raises ``GaplessError`` where it does not train, or a name is not known.
    """
    if recording is None:
        scouted = scout(asked, say)
        return _attempted(asked, scouted.recording, scouted, say)
    return _attempted(asked, recording, None, say)


def _attempted(asked: Asked, known: Recording, scouted: Scouted | None, say: Say) -> Tried:
    found = facts_of(known)
    chosen = _chosen(asked.wish, known, found, say)
    if not chosen.candidates:
        return Tried(known, None, chosen.proposals, chosen.notes)
    place = asked.out or Path(known.path) / "trials" / _new_id(Path(known.path))
    plan = _plan(asked, place, _cold_files(known, found))
    settings = _settings(asked, known, found, plan, chosen)
    if scouted is None:
        forecast(chosen.candidates, settings, known)
    else:
        settings = replace(settings, begun=scouted.begun)
    first = None if scouted is None else scouted.ran
    try:
        offline.make(place / "offline")
    except OSError as error:
        msg = f"{place} cannot be written: {error.strerror}; name another place with --out DIR"
        raise UsageError(msg) from error
    try:
        trial = conduct(chosen.candidates, settings, _logged(plan), say, first)
    except (UsageError, KeyboardInterrupt):
        if asked.out is None:  # nothing came of it
            shutil.rmtree(place, ignore_errors=True)
        raise
    return Tried(known, _told(trial, asked, chosen), chosen.proposals)


def _chosen(wish: Wish, known: Recording, found: Facts, say: Say) -> Chosen:
    if not wish.check:
        return choose(wish, found, expected(known, wish, say))
    made = accounted(known, Options(), say)
    say("predicting")
    plan = checking.planned(prices(made, cached=True))
    return Chosen(plan.candidates, (), plan.notes)


def expected(known: Recording, wish: Wish, say: Say) -> Expected:
    """Give what the study of a run expects of edits; of ceilings alone nothing is asked."""
    if not (wish.proposed or wish.fixes or wish.settings):
        return Expected()
    made = accounted(known, Options(), say)
    say("predicting")
    priced = prices(made, cached=True)
    proposals = conclude(priced).proposals if wish.proposed else ()
    return Expected(proposals, lambda some: foretold(priced, some).speedup)


def scout(asked: Asked, say: Say) -> Scouted:
    """Run a command that was never recorded for some steps; it is a run like others.

    Raises ``GaplessError`` where nothing was recorded of it.
    """
    begun = time.monotonic()
    say("running the command once, to know it")
    quiet = asked.home.parent / "offline"
    offline.make(quiet)
    plan = replace(_plan(asked, asked.home, ()), variables=offline.variables(os.environ, quiet))
    order = Order(UNEDITED, 0, _quiet(quiet), _SCOUT_STEPS, _SCOUT_S)
    ran, recording = arm.run(plan, order)
    if ran.failed is not None or recording is None:
        where = "" if ran.folder is None else f"; what it printed is in {ran.folder}/{arm.OUTPUT}"
        why = _NO_TRAINING if ran.failed in {None, arm.NO_STEPS} else ran.failed
        raise GaplessError(f"the command cannot be tried: {why}{where}")
    return Scouted(recording, Ran(recording, ran.code, foreign=ran.foreign), begun)


def _plan(asked: Asked, out: Path, files: tuple[Path, ...]) -> arm.ArmPlan:
    return arm.ArmPlan(
        command=asked.command,
        out=out,
        private=asked.folder if asked.private else None,
        variables=offline.variables(os.environ, out / "offline"),
        cold=files,
    )


def _logged(plan: arm.ArmPlan) -> RunArm:
    """Give what runs an arm, with loggers kept in the trial's folder on both sides."""
    run, quiet = arm.runner(plan), _quiet(plan.out / "offline")
    return lambda order: run(replace(order, edits=(*order.edits, *quiet)))


def _quiet(folder: Path) -> tuple[Edit, ...]:
    """Give the edits that keep loggers in a folder; variables are ``_plan``'s."""
    return tuple(one for one in offline.edits({}, folder) if isinstance(one, Wrap))


def _settings(
    asked: Asked, known: Recording, found: Facts, plan: arm.ArmPlan, chosen: Chosen
) -> TrialSettings:
    alone = all(one.applicability is Applicability.TRIAL for one in chosen.candidates)
    brief = alone and not asked.wish.check
    usual = _CEILINGS_S if brief else _OTHERS_S
    return TrialSettings(
        id=plan.out.name,
        command=asked.command,
        run=known.manifest.id,
        job=job_of(known, found),
        budget_s=usual if asked.budget_s is None else asked.budget_s,
        most_s=_STRETCH * usual if asked.budget_s is None else None,
        cache="cold" if plan.cold else "warm",
        steps=asked.steps,
        windows=not alone,  # ablations have no accounts of a training that could be
        pairs=2 if brief else 3,
    )


def job_of(known: Recording, found: Facts) -> Job | None:
    """Give how long the recorded run was; ``None`` where it was cut short."""
    whole = known.manifest.exit_code == 0 and known.manifest.stopped_by is None
    whole = whole and all(one.how != "trial" for one in known.processes)  # a first run of ours
    if not whole or found.world.steps == 0:
        return None
    turns = max((one.iterations - 1 for one in found.loaders if one.trains), default=0)
    return Job(found.world.steps, max(0, turns))


def _cold_files(known: Recording, found: Facts) -> tuple[Path, ...]:
    """Give the files to drop from memory before each arm: where the run waited for its disk."""
    waits = any((one.blocked or 0.0) > _BLOCKED for one in found.loaders if one.trains)
    read = any(
        (process.batches.columns["bytes_from_disk"] > 0).any()
        for process in known.processes
        if len(process.batches)
    )
    return cold.files(known) if waits and read else ()


def _told(trial: Trial, asked: Asked, chosen: Chosen) -> Trial:
    """Add what was asked for and not tried."""
    notes = [f"not tried: {one.fix}: {one.refused}" for one in chosen.proposals if one.refused]
    notes += chosen.notes
    notes += [
        f"nothing to change: {one.fix}: {one.summary}"
        for one in chosen.proposals
        if one.refused is None and not one.edits
    ]
    if asked.wish.proposed and all(
        one.applicability is Applicability.TRIAL for one in chosen.candidates
    ):
        notes.append(_NO_PROPOSAL)
    return replace(trial, notes=(*trial.notes, *notes))


def _new_id(run: Path) -> str:
    """Give the name of the next trial of a run."""
    for number in range(1, 10_000):
        if not (run / "trials" / f"{number:02d}").exists():
            return f"{number:02d}"
    raise UsageError(f"{run}/trials holds too many trials; delete some")
