"""The study as JSON: an interface that scripts rely on. Keys are added, never renamed.

The classes here are that interface, written out; the schema in ``docs/schema`` is made from
them. Times are integer nanoseconds, shares fractions; what is absent is null or missing, never 0.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from gapless.model.account import Account, RowAccount
from gapless.model.comparison import (
    CauseDelta,
    ChargeDelta,
    ComparedStudy,
    Comparison,
    FactDelta,
    OperationDelta,
)
from gapless.model.estimate import Estimate
from gapless.model.finding import Abstention, ReplayFidelity
from gapless.model.footprint import AllocatorUse, CallUse, FileUse, SyncUse
from gapless.model.host_code import HostCode, HotLine
from gapless.model.recording import Node, Unobserved
from gapless.model.rhythm import Phase, UnlikeSteps
from gapless.model.run import (
    CpuContention,
    DeviceState,
    Energy,
    LoaderUse,
    OptimizerUse,
    RecordedRun,
    RunCost,
    Series,
    Timeline,
)
from gapless.model.study import Leaf, Steps, Straggler, Study
from gapless.model.tables import Tables
from gapless.model.trace import Count
from gapless.model.version import version
from gapless.report.documents.diagnosis import (
    FindingObject,
    PresentObject,
    ToTryObject,
    VerdictObject,
    diagnosis_keys,
)
from gapless.report.documents.from_model import fill
from gapless.report.documents.trials import (
    ProposalObject,
    TrialObject,
    proposal_objects,
    trial_objects,
)


class StepObject(Struct, frozen=True):
    """Step times. ``count`` is of the capture or run, ``profiled`` of those in ``account``.

    Of a run, times are of the ``regular`` steps that no profiler touched: the mean of all, the rest
    of those ``noted`` one by one.
    """

    count: int
    median_ns: int
    p10_ns: int
    p90_ns: int
    profiled: int
    samples_per_s: float | None
    noise: float | None
    rule: str
    mean_ns: int | None = None
    regular: int | None = None
    device_median_ns: int | None = None
    anchor: str | None = None
    noted: int | None = None
    phases: tuple[Phase, ...] | None = None  # one after the other; one phase has none


class StepAccountObject(Struct, frozen=True):
    """Where an un-profiled step of a run goes; leaves and groups each sum to ``wall_ns``."""

    wall_ns: int
    steps: int | None
    leaves: Mapping[str, int]
    groups: Mapping[str, int]
    refined_by: int  # steps of windows that part "step"
    on_device: bool
    hidden_ns: int
    backlog_ns: int | None
    excess_ns: int
    host_scale: float | None
    unlike: UnlikeSteps | None = None  # steps of a kind that no window holds
    weighed: bool = False  # steps of windows count as often as the kinds that they stand for


def recorded_keys(recorded: RecordedRun) -> dict[str, Any]:
    """Return the keys of a recorded run that its parts do not have by the same name."""
    step_account = recorded.account
    return {
        "step_account": step_account
        and fill(StepAccountObject, step_account.account, step_account),
        "hot_lines": recorded.lines,
        "unseen": recorded.unobserved,
        "others": recorded.contention,
        "axis_error_ns": recorded.clock_error_ns,
    }


def recorded_step(recorded: RecordedRun, windows: Steps | None) -> StepObject | None:
    """Return the step times of a run; ``windows`` are those of its windows."""
    steps = recorded.steps
    if steps is None:
        return None
    profiled = windows.count if windows else 0
    return fill(StepObject, steps, profiled=profiled, phases=steps.phases or None)


SCHEMA: Final = 1
_UNSAFE: Final = re.compile(
    "[\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
)


class RunObject(Struct, frozen=True):
    """What was run; null where a foreign trace does not say."""

    id: str | None
    command: tuple[str, ...] | None
    exit_code: int | None
    status: str | None
    world: int | None
    device: str | None
    versions: Mapping[str, str]
    paths: tuple[str, ...]
    ranks: tuple[int, ...]
    stopped_by: str | None = None  # "check": gapless ended it, as asked
    started_unix_ns: int | None = None
    wall_ns: int | None = None  # of the command
    devices: int | None = None


class HealthObject(Struct, frozen=True):
    """How far the numbers can be trusted."""

    source: str
    events: int
    dropped: int
    repaired: int
    truncated: bool
    resolution_ns: int
    launches_recorded: float | None
    clock_error_ns: int
    notes: tuple[str, ...]
    details: tuple[Count, ...]


class RowObject(Struct, frozen=True):
    """One row of the account: a device (or, null, the training thread) within a step."""

    rank: int | None
    device: int | None
    step: int | None
    wall_ns: int
    leaves: Mapping[str, int]


class AccountObject(Struct, frozen=True):
    """Leaves and groups that each sum to ``wall_ns`` exactly."""

    wall_ns: int
    steps: int | None
    leaves: Mapping[str, int]
    groups: Mapping[str, int]
    rows: tuple[RowObject, ...]


class StudyObject(Struct, frozen=True):
    """One object a study; what only a recorded run has is null for a foreign trace."""

    schema: int
    gapless: str
    run: RunObject
    health: HealthObject
    step: StepObject | None
    account: AccountObject
    tables: Tables
    leaf: Leaf | None
    stragglers: tuple[Straggler, ...] | None
    timeline: Timeline | None = None
    step_account: StepAccountObject | None = None
    loaders: tuple[LoaderUse, ...] | None = None
    machine: tuple[Series, ...] | None = None
    energy: Energy | None = None
    cost: RunCost | None = None
    hot_lines: tuple[HotLine, ...] | None = None
    host_code: tuple[HostCode, ...] | None = None  # what training threads did themselves
    unseen: tuple[Unobserved, ...] | None = None
    others: CpuContention | None = None
    optimizers: tuple[OptimizerUse, ...] | None = None
    adopted: tuple[str, ...] | None = None  # traces of the training's own profiler, used as windows
    axis_error_ns: int | None = None  # of the clock that marks and windows share
    syncs: tuple[SyncUse, ...] | None = None
    allocator: tuple[AllocatorUse, ...] | None = None
    files: FileUse | None = None
    calls: tuple[CallUse, ...] | None = None  # lines that save, or log
    devices_seen: tuple[DeviceState, ...] | None = None
    nodes: tuple[Node, ...] | None = None  # the machines of a job; of one folder there are none
    proposals: tuple[ProposalObject, ...] | None = None  # what would help, or was asked to be tried
    trials: tuple[TrialObject, ...] | None = None
    findings: tuple[FindingObject, ...] | None = None  # most valuable first; null: not looked for
    present: tuple[PresentObject, ...] | None = None  # seen, and not worth it
    to_try: tuple[ToTryObject, ...] | None = None  # not sure to be worth naming, and worth a trial
    abstentions: tuple[Abstention, ...] | None = None  # rules that could not be checked
    outlook: str | None = None  # without findings: what is left to gain
    provisional: bool | None = None  # too few steps to know the noise
    least: float | None = None  # the gain from which on a cause is worth naming
    rehearsal: ReplayFidelity | None = None  # the unchanged windows, replayed
    verdict: VerdictObject | None = None  # why a step takes as long as it does; null without steps


class ComparisonObject(Struct, frozen=True):
    """Two studies side by side; times of ``groups`` and below are nanoseconds a step."""

    schema: int
    gapless: str
    a: ComparedStudy
    b: ComparedStudy
    per_step: bool  # false: a capture without steps is compared as a whole
    groups: tuple[ChargeDelta, ...]  # sum to the ``step_ns`` of each side, and so do ``leaves``
    leaves: tuple[ChargeDelta, ...]
    operators: tuple[OperationDelta, ...]  # host self time
    kernels: tuple[OperationDelta, ...]  # device time
    notes: tuple[str, ...]
    # Of two recorded runs:
    speedup: Estimate | None  # of B over A, 90 %
    facts: tuple[FactDelta, ...]
    causes: tuple[CauseDelta, ...]
    explained: Mapping[str, tuple[FactDelta, ...]]  # by group; none: no setting that changed


def study_json(study: Study) -> str:
    """Write a study as one line of JSON, safe to show on a terminal."""
    recorded, diagnosis = study.recorded, study.diagnosis
    return json_line(
        fill(
            StudyObject,
            recorded and recorded.footprint,
            recorded,
            diagnosis,
            schema=SCHEMA,
            gapless=version(),
            run=_run(study),
            health=fill(HealthObject, study.health),
            step=_step(study),
            account=_account(study.account),
            tables=study.tables,
            leaf=study.leaf,
            stragglers=study.stragglers if len(study.run.ranks) > 1 else None,
            proposals=proposal_objects(study.proposals) if study.proposals else None,
            trials=trial_objects(study.trials) if study.trials else None,
            **({} if recorded is None else recorded_keys(recorded)),
            **({} if diagnosis is None else diagnosis_keys(diagnosis)),
        )
    )


def comparison_json(comparison: Comparison) -> str:
    """Write a comparison as one line of JSON."""
    return json_line(fill(ComparisonObject, comparison, schema=SCHEMA, gapless=version()))


def json_line(value: object) -> str:
    """Encode, and escape what a terminal would act on: the value stays the same."""
    text = msgspec.json.encode(value).decode()
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", text) + "\n"


def _run(study: Study) -> RunObject:
    versions, recorded = dict(study.run.versions), study.recorded
    if recorded is None:
        unknown = dict.fromkeys(("id", "command", "exit_code", "status"))
        return fill(RunObject, study.run, versions=versions, **unknown)
    return fill(RunObject, recorded.life, study.run, versions=versions, devices=recorded.devices)


def _step(study: Study) -> StepObject | None:
    if study.recorded is not None:
        return recorded_step(study.recorded, study.steps)
    steps = study.steps
    if steps is None:
        return None
    return fill(
        StepObject,
        steps,
        count=steps.count + steps.left_out,
        profiled=steps.count,
        samples_per_s=None,
        noise=None,
    )


def _account(account: Account) -> AccountObject:
    return fill(AccountObject, account, rows=tuple(_row(row) for row in account.rows))


def _row(row_account: RowAccount) -> RowObject:
    row = row_account.row
    return RowObject(row.rank, row.device, row.step, row.end - row.start, row_account.leaves)
