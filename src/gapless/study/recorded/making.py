"""A recorded run, from the values of its folder to its study."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gapless import wire
from gapless.errors import NotFoundError
from gapless.model.account import Account
from gapless.model.leaf import GROUPS
from gapless.model.machine import Constants
from gapless.model.recording import Recording, Unseen
from gapless.model.run import Cost, Recorded, RunLife, RunSteps, StepAccount
from gapless.model.seen import Seen
from gapless.model.study import RunInfo, Study, StudyHealth
from gapless.model.tables import Tables
from gapless.store import trials
from gapless.study.anchoring import lifted
from gapless.study.concluding import conclude, prices_of
from gapless.study.options import Options, Say
from gapless.study.playing import player_of
from gapless.study.price import Prices
from gapless.study.recorded import constants
from gapless.study.recorded.account import joined
from gapless.study.recorded.devices import device_states
from gapless.study.recorded.facts import facts
from gapless.study.recorded.feeding import feedings
from gapless.study.recorded.footprint import footprint
from gapless.study.recorded.hooks import hook_lines
from gapless.study.recorded.lines import (
    call_lines,
    host_code,
    hot_lines,
    lines_of_ranks,
    loading_lines,
)
from gapless.study.recorded.loaders import loader_uses
from gapless.study.recorded.machine import (
    are_few,
    cost,
    energy,
    gpus,
    machine_series,
    others,
    utilisation,
)
from gapless.study.recorded.occasions import occasions, sightings, spreads
from gapless.study.recorded.optimizers import other_optimizers
from gapless.study.recorded.processors import Room, room
from gapless.study.recorded.rows import Charged, charged
from gapless.study.recorded.shareable import shareable
from gapless.study.recorded.steps import run_steps
from gapless.study.recorded.timeline import timeline
from gapless.study.recorded.training import (
    Training,
    span_of_steps,
    steppers,
    trainings,
)
from gapless.study.recorded.waits import waits
from gapless.study.recorded.windows import profiled
from gapless.study.rereading import Capture

_LATER: Final = {"model"}  # what may be found after it was said that it was not


@dataclass(frozen=True)
class Made:
    """The account of a run, and what causes are looked for in."""

    study: Study
    recording: Recording
    captures: tuple[Capture, ...]


def make_recorded(recording: Recording, options: Options, tell: Say) -> Study:
    """Give the study of a run: its account, and its causes. Raises ``GaplessError``."""
    made = accounted(recording, options, tell)
    if not options.concludes:
        return made.study
    tell("looking for causes")
    return conclude(prices(made, cached=options.cache))


def accounted(recording: Recording, options: Options, tell: Say) -> Made:
    """Join the light marks of a run with its windows. Raises ``GaplessError``."""
    tell("charging waits")
    every = _chosen(trainings(recording), options)
    rows = [charged(one, waits(one)) for one in every]
    waited = [(one.training, one.waits) for one in rows]
    seen = profiled(recording, every, options, tell)
    windows = seen.study
    stepping_ones = steppers(every)
    chosen = {id(one) for one in stepping_ones}
    stepping = [one for one in rows if id(one.training) in chosen]
    steps = lifted(_steps(run_steps(stepping_ones, waited), stepping, windows), windows)
    taken = others(recording.samples, _room(every), span_of_steps(stepping_ones))
    account = joined(stepping, windows, steps, alone=are_few(taken))
    span = _span(recording, every)
    base = windows or _nothing(recording, every)
    recorded = Recorded(
        life=_life(recording),
        timeline=timeline(rows, stepping_ones),
        steps=steps,
        account=account,
        loaders=loader_uses(waited),
        machine=machine_series(recording.samples, span),
        energy=energy(recording.samples),
        cost=_cost(recording, options, account, every, span),
        lines=hot_lines(process for one in every for process in (one.process, *one.workers)),
        unseen=_unseen(recording),
        device=base.run.device,
        devices=_devices(recording, account, every),
        windows=seen.windows,
        notes=seen.notes,
        adopted=seen.adopted,
        clock_error_ns=seen.clock_error_ns,
        footprint=footprint(every),
        others=taken,
        optimizers=other_optimizers(stepping_ones),
        devices_seen=device_states(recording.samples),
        rank_lines=lines_of_ranks(one.process for one in every),
        host_code=host_code(one.training.process for one in stepping),
        loading_lines=loading_lines(one.training.process for one in stepping),
        call_lines=call_lines(one.training.process for one in stepping),
        hook_lines=hook_lines(one.training.process for one in stepping),
    )
    found = replace(
        base,
        run=_run(recording, every, base.run),
        recorded=recorded,
        trials=trials.of(Path(recording.path)),
    )
    return Made(found, recording, seen.captures)


def prices(made: Made, *, cached: bool) -> Prices:
    """Give what changes of a run are priced with: its windows are read once more for that."""
    known = facts(made.recording)
    found = constants.kept(made.recording) if cached else None
    seen = Seen(_with_note(made.study, found), known, found)
    shared = shareable(made.study)
    loaders = tuple(
        replace(one, shareable=shared)
        for one in feedings(made.recording, known, made.study.recorded, found)
    )
    return prices_of(seen, player_of(made.captures, seen, loaders, cached=cached))


def _with_note(study: Study, found: Constants | None) -> Study:
    """Say what predictions rest on that was not measured in the run."""
    recorded = study.recorded
    if found is None or recorded is None:
        return study
    notes = (*recorded.notes, constants.note(found))
    return replace(study, recorded=replace(recorded, notes=notes))


def _chosen(every: Sequence[Training], options: Options) -> tuple[Training, ...]:
    ranks = options.ranks()
    if ranks is None:
        return tuple(every)
    found = tuple(
        one for one in every if one.process.rank is not None and one.process.rank in ranks
    )
    if not found:
        have = sorted({one.process.rank for one in every if one.process.rank is not None})
        known = f"there are {', '.join(map(str, have))}" if have else "no process named its rank"
        raise NotFoundError(f"there is no rank {options.rank}: {known}")
    return found


def _steps(
    steps: RunSteps | None, every: Sequence[Charged], windows: Study | None
) -> RunSteps | None:
    """Add how often lumps come, as the first rank saw it; of one alone how surely that is known."""
    if steps is None or not every:
        return steps
    backlog = (windows.backlog_ns if windows else None) or 0
    found = occasions(every[0], backlog)
    known = replace(steps, sightings=sightings(found))
    return replace(known, spreads=spreads(found)) if len(every) == 1 else known


def _life(recording: Recording) -> RunLife:
    told = recording.manifest
    return RunLife(
        id=told.id,
        path=recording.path,
        command=told.command,
        status=told.status,
        exit_code=told.exit_code,
        stopped_by=told.stopped_by,
        wall_ns=None if told.ended is None else told.ended - told.started,
        started_unix_ns=told.started_unix_ns,
    )


def _span(recording: Recording, every: Sequence[Training]) -> tuple[int, int]:
    told = recording.manifest
    ends = [int(at.max()) for at, _ in recording.samples.series.values() if len(at)]
    last = max([told.started, *(one.end for one in every), *ends])
    return told.started, told.ended if told.ended is not None else last


def _run(recording: Recording, every: Sequence[Training], base: RunInfo) -> RunInfo:
    versions: dict[str, str] = {}
    for one in every:
        versions = {**{key: str(text) for key, text in one.process.versions.items()}, **versions}
    worlds = [one.process.world for one in every if one.process.world is not None]
    return replace(
        base,
        paths=(recording.path,),
        ranks=tuple(sorted({one.process.rank for one in every if one.process.rank is not None})),
        world=max(worlds, default=base.world),
        versions=tuple(versions.items()) or base.versions,
    )


def _nothing(recording: Recording, every: Sequence[Training]) -> Study:
    """Give the study of no window."""
    records = sum(len(one.process.marks) + len(one.process.batches) for one in every)
    return Study(
        run=RunInfo((recording.path,), (), None, None, ()),
        health=StudyHealth("recorder", records, 0, 0, False, 1, None, 0, (), ()),  # noqa: FBT003
        steps=None,
        account=Account(0, None, {}, dict.fromkeys(GROUPS, 0), {}, rows=()),
        tables=Tables((), (), (), (), (), (), ()),
    )


def _devices(
    recording: Recording, account: StepAccount | None, every: Sequence[Training]
) -> int | None:
    """Count the GPUs that the run used; ``None`` where nothing tells."""
    on_device = any(
        (one.process.marks.kind == wire.DEVICE_STEP).any()
        or len(one.sums.calls.of(wire.DEVICE_STEP).kind)
        for one in every
    )
    if not on_device and not (account and account.on_device):
        return None
    return max(len({one.process.rank for one in every}), len(gpus(recording.samples)))


def _room(every: Sequence[Training]) -> Room:
    """Give the processors of the run, as its training processes counted them."""
    facts = [fact for one in every for fact in one.process.facts if fact.noun == "machine"]
    return room(fact.values for fact in facts)


def _cost(
    recording: Recording,
    options: Options,
    account: StepAccount | None,
    every: Sequence[Training],
    span: tuple[int, int],
) -> Cost | None:
    if options.price is None:
        return None
    devices = _devices(recording, account, every) or len(gpus(recording.samples))
    return cost(options.price, devices, span[1] - span[0], _worked(recording, account, every))


def _worked(
    recording: Recording, account: StepAccount | None, every: Sequence[Training]
) -> tuple[float, str] | None:
    """Give the share of the run in which GPUs worked: as sampled, else by the account of steps."""
    sampled = utilisation(recording.samples)
    if sampled is not None:
        return sampled, "sampled: a kernel ran"
    if account is None or not account.on_device:
        return None
    busy = account.account.busy_ns() / account.account.wall_ns
    lives = sum(one.end - one.start for one in every)
    stepped = sum(one.span[1] - one.span[0] for one in every if one.span)
    return busy * stepped / lives, "steps by the account, else idle"


def _unseen(recording: Recording) -> tuple[Unseen, ...]:
    """Add up what was not observed, by what and why."""
    counts = Counter[tuple[str, str]]()
    found = {fact.noun for process in recording.processes for fact in process.facts}
    for one in _told(recording):
        if one.what not in found & _LATER:
            counts[one.what, one.why] += one.count
    return tuple(Unseen(what, why, count) for (what, why), count in counts.items())


def _told(recording: Recording) -> Iterable[Unseen]:
    yield from recording.unseen
    yield from recording.samples.unseen
    for process in recording.processes:
        yield from process.unseen
