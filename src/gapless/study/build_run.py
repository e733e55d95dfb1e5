"""A recorded run, from the values of its folder to its study."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gapless import wire
from gapless.capture.reread import StudiedCapture
from gapless.errors import NotFoundError
from gapless.model.account import Account
from gapless.model.evidence import Evidence
from gapless.model.leaf import GROUPS
from gapless.model.machine import Constants
from gapless.model.options import Options, Progress
from gapless.model.recording import Recording, Unobserved
from gapless.model.run import RecordedRun, RunCost, RunLife, StepAccount
from gapless.model.study import RunInfo, Study, StudyHealth
from gapless.model.tables import EMPTY_TABLES
from gapless.pricing.conclude import conclude, prices_of
from gapless.pricing.price import Prices
from gapless.pricing.simulators.anchoring import raise_to_device
from gapless.pricing.simulators.simulator import build_simulator
from gapless.recorded.facts import facts
from gapless.recorded.loaders.waits import loader_waits
from gapless.recorded.loaders.whatif_inputs import loader_inputs
from gapless.recorded.machine.devices import device_states
from gapless.recorded.machine.footprint import measure_footprint
from gapless.recorded.machine.page_faults import measure_page_faults
from gapless.recorded.machine.processors import ProcessorLimits, processor_limits
from gapless.recorded.machine.samples import (
    cost,
    energy,
    gpu_utilisation,
    is_negligible,
    machine_series,
    measure_contention,
    used_gpus,
)
from gapless.recorded.machine.shareable import shareable_share
from gapless.recorded.nodes.exchanges import add_exchanges
from gapless.recorded.nodes.join import lacking_nodes
from gapless.recorded.steps.account import join_windows
from gapless.recorded.steps.loader_use import loader_uses
from gapless.recorded.steps.occasions import add_occasions
from gapless.recorded.steps.pace import step_pace
from gapless.recorded.steps.rows import charge_training
from gapless.recorded.steps.step_times import run_steps
from gapless.recorded.steps.timeline import timeline
from gapless.recorded.training.calls import call_trees
from gapless.recorded.training.fetch_waits import fetch_waits
from gapless.recorded.training.hooks import hook_lines
from gapless.recorded.training.host_code import host_code
from gapless.recorded.training.lines import call_lines, hot_lines, lines_of_ranks, loading_lines
from gapless.recorded.training.optimizers import other_optimizers
from gapless.recorded.training.processes import Training, select_steppers, span_of_steps, trainings
from gapless.recorded.training.trainers import trainer_lines
from gapless.recorded.windows import study_windows
from gapless.store.run import trials
from gapless.study import run_constants

_LATE_FACTS: Final = {"model"}  # what may be found later although it was reported as unobserved


class RunAccount(Struct, frozen=True):
    """The account of a run, and the evidence in which causes are sought."""

    study: Study
    recording: Recording
    captures: tuple[StudiedCapture, ...]


def make_run_study(recording: Recording, options: Options, report_progress: Progress) -> Study:
    """Return the study of a run: its account, and its causes. Raises ``GaplessError``."""
    run_account = account_run(recording, options, report_progress)
    if not options.concludes:
        return run_account.study
    report_progress("looking for causes")
    return conclude(prices_of_run(run_account, cached=options.cache))


def account_run(recording: Recording, options: Options, report_progress: Progress) -> RunAccount:
    """Join the light marks of a run with its windows. Raises ``GaplessError``."""
    report_progress("charging waits")
    rank_trainings = _select_ranks(trainings(recording), options)
    training_rows = [
        charge_training(training, loader_waits(training)) for training in rank_trainings
    ]
    window_report = study_windows(recording, rank_trainings, options, report_progress)
    windows = window_report.study
    stepping_trainings = select_steppers(rank_trainings)
    stepping_ids = {id(training) for training in stepping_trainings}
    stepping_rows = [row for row in training_rows if id(row.training) in stepping_ids]
    steps = raise_to_device(
        add_occasions(run_steps(stepping_trainings, training_rows), stepping_rows, windows),
        windows,
    )
    contention = measure_contention(
        recording.samples, _processor_limits(rank_trainings), span_of_steps(stepping_trainings)
    )
    account = join_windows(stepping_rows, windows, steps, undisturbed=is_negligible(contention))
    span = _run_span(recording, rank_trainings)
    base = windows or _empty_study(recording, rank_trainings)
    processes = [
        process for training in rank_trainings for process in (training.process, *training.workers)
    ]
    recorded = RecordedRun(
        life=_run_life(recording),
        timeline=timeline(training_rows, stepping_trainings),
        steps=steps,
        account=account,
        loaders=loader_uses(training_rows),
        machine=machine_series(recording.samples, span, pictured=options.pictured),
        energy=energy(recording.samples),
        cost=_run_cost(recording, options, account, rank_trainings, span),
        lines=hot_lines(processes),
        unobserved=_sum_unobserved(recording),
        device=base.run.device,
        devices=_count_devices(recording, account, rank_trainings),
        windows=window_report.n_windows,
        notes=window_report.notes,
        adopted=window_report.adopted,
        clock_error_ns=window_report.clock_error_ns,
        footprint=measure_footprint(rank_trainings),
        contention=contention,
        page_faults=measure_page_faults(recording.samples, stepping_trainings),
        optimizers=other_optimizers(stepping_trainings),
        devices_seen=device_states(recording.samples),
        rank_lines=lines_of_ranks(training.process for training in rank_trainings),
        host_code=host_code(row.training.process for row in stepping_rows),
        loading_lines=loading_lines(row.training.process for row in stepping_rows),
        call_lines=call_lines(row.training.process for row in stepping_rows),
        fetch_waits=fetch_waits(processes),
        hook_lines=hook_lines(row.training.process for row in stepping_rows),
        trainer_lines=trainer_lines(row.training.process for row in stepping_rows),
        calls=call_trees(rank_trainings),
        pace=step_pace(stepping_trainings, span) if options.pictured else None,
        nodes=add_exchanges(recording, span_of_steps(stepping_trainings)),
    )
    study = replace(
        base,
        run=_run_info(recording, rank_trainings, base.run),
        recorded=recorded,
        trials=trials.run_trials(Path(recording.path)),
    )
    return RunAccount(study, recording, window_report.captures)


def prices_of_run(run_account: RunAccount, *, cached: bool) -> Prices:
    """Return the evidence for pricing changes of a run: its windows are read again for it."""
    run_facts = facts(run_account.recording)
    machine_constants = run_constants.find_constants(run_account.recording) if cached else None
    evidence = Evidence(
        _add_note(run_account.study, machine_constants), run_facts, machine_constants
    )
    work_share = shareable_share(run_account.study)
    loaders = tuple(
        replace(inputs, shareable=work_share)
        for inputs in loader_inputs(
            run_account.recording, run_facts, run_account.study.recorded, machine_constants
        )
    )
    return prices_of(
        evidence, build_simulator(run_account.captures, evidence, loaders, cached=cached)
    )


def _add_note(study: Study, machine_constants: Constants | None) -> Study:
    """Note what predictions rest on that was not measured in the run."""
    recorded = study.recorded
    if machine_constants is None or recorded is None:
        return study
    notes = (*recorded.notes, run_constants.constants_note(machine_constants))
    return replace(study, recorded=replace(recorded, notes=notes))


def _select_ranks(trainings: Sequence[Training], options: Options) -> tuple[Training, ...]:
    ranks = options.ranks()
    if ranks is None:
        return tuple(trainings)
    selected = tuple(
        training
        for training in trainings
        if training.process.rank is not None and training.process.rank in ranks
    )
    if not selected:
        known_ranks = sorted(
            {training.process.rank for training in trainings if training.process.rank is not None}
        )
        hint = (
            f"there are {', '.join(map(str, known_ranks))}"
            if known_ranks
            else "no process named its rank"
        )
        raise NotFoundError(f"there is no rank {options.rank}: {hint}")
    return selected


def _run_life(recording: Recording) -> RunLife:
    manifest = recording.manifest
    return RunLife(
        id=manifest.id,
        path=recording.path,
        command=manifest.command,
        status=manifest.status,
        exit_code=manifest.exit_code,
        stopped_by=manifest.stopped_by,
        wall_ns=None if manifest.ended is None else manifest.ended - manifest.started,
        started_unix_ns=manifest.started_unix_ns,
    )


def _run_span(recording: Recording, trainings: Sequence[Training]) -> tuple[int, int]:
    manifest = recording.manifest
    ends = [int(times.max()) for times, _ in recording.samples.series.values() if len(times)]
    last_ns = max([manifest.started, *(training.end for training in trainings), *ends])
    return manifest.started, manifest.ended if manifest.ended is not None else last_ns


def _run_info(recording: Recording, trainings: Sequence[Training], base: RunInfo) -> RunInfo:
    versions: dict[str, str] = {}
    for training in trainings:
        versions = {
            **{key: str(text) for key, text in training.process.versions.items()},
            **versions,
        }
    worlds = [
        training.process.world for training in trainings if training.process.world is not None
    ]
    return replace(
        base,
        paths=(recording.path,),
        ranks=tuple(
            sorted(
                {
                    training.process.rank
                    for training in trainings
                    if training.process.rank is not None
                }
            )
        ),
        world=max(worlds, default=base.world),
        versions=tuple(versions.items()) or base.versions,
    )


def _empty_study(recording: Recording, trainings: Sequence[Training]) -> Study:
    """Return the study without any window."""
    records = sum(
        len(training.process.marks) + len(training.process.batches) for training in trainings
    )
    return Study(
        run=RunInfo((recording.path,), (), None, None, ()),
        health=StudyHealth("recorder", records, 0, 0, False, 1, None, 0, (), ()),  # noqa: FBT003
        steps=None,
        account=Account(0, None, {}, dict.fromkeys(GROUPS, 0), {}, rows=()),
        tables=EMPTY_TABLES,
    )


def _count_devices(
    recording: Recording, account: StepAccount | None, trainings: Sequence[Training]
) -> int | None:
    """Count the GPUs that the run used; ``None`` if not known."""
    on_device = any(
        (training.process.marks.kind == wire.DEVICE_STEP).any()
        or len(training.sums.calls.select(wire.DEVICE_STEP).kind)
        for training in trainings
    )
    if not on_device and not (account and account.on_device):
        return None
    return max(
        len({training.process.rank for training in trainings}), len(used_gpus(recording.samples))
    )


def _processor_limits(trainings: Sequence[Training]) -> ProcessorLimits:
    """Return the processors of the run, as its training processes counted them."""
    facts = [
        fact for training in trainings for fact in training.process.facts if fact.noun == "machine"
    ]
    return processor_limits(fact.values for fact in facts)


def _run_cost(
    recording: Recording,
    options: Options,
    account: StepAccount | None,
    trainings: Sequence[Training],
    span: tuple[int, int],
) -> RunCost | None:
    if options.price is None:
        return None
    devices = _count_devices(recording, account, trainings) or len(used_gpus(recording.samples))
    return cost(
        options.price, devices, span[1] - span[0], _gpu_usage(recording, account, trainings)
    )


def _gpu_usage(
    recording: Recording, account: StepAccount | None, trainings: Sequence[Training]
) -> tuple[float, str] | None:
    """Return the share of the run in which GPUs worked: as sampled, else by the steps' account."""
    sampled_share = gpu_utilisation(recording.samples)
    if sampled_share is not None:
        return sampled_share, "sampled: a kernel ran"
    if account is None or not account.on_device:
        return None
    busy = account.account.busy_ns() / account.account.wall_ns
    lives_ns = sum(training.end - training.start for training in trainings)
    stepped_ns = sum(training.span[1] - training.span[0] for training in trainings if training.span)
    return busy * stepped_ns / lives_ns, "steps by the account, else idle"


def _sum_unobserved(recording: Recording) -> tuple[Unobserved, ...]:
    """Add up what was not observed, by what and why."""
    counts = Counter[tuple[str, str]]()
    fact_nouns = {fact.noun for process in recording.processes for fact in process.facts}
    for unobserved in _iter_unobserved(recording):
        if unobserved.what not in fact_nouns & _LATE_FACTS:
            counts[unobserved.what, unobserved.why] += unobserved.count
    return tuple(Unobserved(subject, reason, count) for (subject, reason), count in counts.items())


def _iter_unobserved(recording: Recording) -> Iterable[Unobserved]:
    yield from recording.unobserved
    yield from recording.samples.unobserved
    yield from lacking_nodes(recording)
    for process in recording.processes:
        yield from process.unobserved
