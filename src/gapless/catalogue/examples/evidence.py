"""The evidence of a run, stated in a few lines, for the figures of the rules.

Times are in milliseconds of one step; the parts are made by ``examples.parts``. The study has
``COUNT`` un-profiled steps, and its tables cover windows of ``STEPS`` steps. For drawn steps,
``evidence_of_drawing`` takes the leaves from the drawing. ``examples.reading`` makes figures of it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args, get_type_hints

from msgspec.structs import replace

from gapless.catalogue.examples.drawing import foreign_evidence
from gapless.catalogue.examples.parts import COUNT, MS, SECOND, STEPS, example_life
from gapless.catalogue.queries.trace_facts import infer_facts
from gapless.model.account import Account, RowAccount
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts
from gapless.model.footprint import AllocatorUse, CallUse, FileUse, Footprint, SyncUse
from gapless.model.host_code import CallLine, FetchWait, HostCode, HotLine
from gapless.model.leaf import GROUPS, group_of
from gapless.model.ledger import Row
from gapless.model.machine import Constants
from gapless.model.run import (
    CpuContention,
    LoaderUse,
    OptimizerUse,
    PageFaults,
    ProcessTime,
    RecordedRun,
    RunLife,
    RunSteps,
    Series,
    StepAccount,
    Timeline,
)
from gapless.model.study import RunInfo, Site, Study, StudyHealth
from gapless.model.tables import Tables
from gapless.model.work import Work

_TABLES: Final[Mapping[str, type]] = {
    name: get_args(rows)[0] for name, rows in get_type_hints(Tables).items()
}
_HEALTH: Final = StudyHealth(
    source="kineto",
    events=0,
    dropped=0,
    repaired=0,
    truncated=False,
    resolution_ns=1,
    launches_recorded=1.0,
    clock_error_ns=0,
    details=(),
    notes=(),
)


def evidence_of(
    facts: Facts | None,
    leaves: Mapping[str, float],
    *parts: object,
    in_windows: Mapping[str, float] | None = None,
    on_device: bool | None = None,
) -> Evidence:
    """Return the evidence of a run whose steps have these leaves, in ms of a step.

    ``facts``: ``None`` for a foreign trace, of which nothing was recorded. ``parts``: rows of
    tables, work of operators, sites, uses of loaders, the machine's constants and series, parts of
    the footprint and the timeline; each is sorted in by its type. ``in_windows``: the leaves in
    windows, if they differ; empty: no window was kept. ``on_device``: by default, whether the
    facts name a device.
    """
    if on_device is None:
        on_device = facts is None or facts.machine.device is not None
    account = _build_account(
        leaves if in_windows is None else in_windows, STEPS, on_device=on_device
    )
    study = Study(
        run=RunInfo(("trace.json",), (0,), 1, None, ()),
        health=_HEALTH,
        steps=None,
        account=account,
        tables=Tables(**{name: _parts_of_type(parts, kind) for name, kind in _TABLES.items()}),
        work=_parts_of_type(parts, Work),
        sites=_parts_of_type(parts, Site),
    )
    constants = next(iter(_parts_of_type(parts, Constants)), None)
    if facts is None:
        return Evidence(study, infer_facts(study), constants)
    recorded = _build_recorded(leaves, parts, on_device=on_device, windows=int(in_windows != {}))
    return Evidence(replace(study, recorded=recorded), facts, constants)


def evidence_of_drawing(drawing: str, facts: Facts | None, *parts: object) -> Evidence:
    """Return the evidence of drawn steps (``examples.drawing``), recorded if there are facts."""
    foreign = foreign_evidence(drawing)
    if facts is None:
        return foreign
    account = foreign.study.account
    n_steps = account.steps or 1
    leaves = {name: ns / n_steps / MS for name, ns in account.leaves.items()}
    return evidence_of(facts, leaves, *parts, on_device=foreign.on_device)


def with_recorded(evidence: Evidence, **changes: Any) -> Evidence:  # noqa: ANN401 - any field
    """Return the evidence with other recorded fields ("machine", "contention", "notes" …)."""
    recorded = evidence.study.recorded
    if recorded is None:
        raise ValueError("nothing was recorded of a foreign trace")
    return replace(evidence, study=replace(evidence.study, recorded=replace(recorded, **changes)))


def with_steps(evidence: Evidence, **changes: Any) -> Evidence:  # noqa: ANN401 - any field
    """Return the evidence with other figures of its steps ("p90_ns", "noise" …)."""
    recorded = evidence.study.recorded
    if recorded is None or recorded.steps is None:
        raise ValueError("nothing was recorded of a foreign trace")
    return with_recorded(evidence, steps=replace(recorded.steps, **changes))


def _parts_of_type(parts: Sequence[object], kind: type) -> tuple[Any, ...]:
    return tuple(candidate for candidate in parts if isinstance(candidate, kind))


def _build_account(leaves: Mapping[str, float], n_steps: int, *, on_device: bool) -> Account:
    """Return the account of steps that are all alike; without leaves there were none."""
    leaves_ns = {name: round(ms * MS) for name, ms in leaves.items() if ms}
    step_ns = sum(leaves_ns.values())
    rows = tuple(
        RowAccount(
            Row(
                0,
                0 if on_device else None,
                index,
                index * step_ns,
                (index + 1) * step_ns,
                left_out=False,
            ),
            leaves_ns,
            _sum_groups(leaves_ns),
        )
        for index in range(n_steps if leaves_ns else 0)
    )
    leaves_by_group: dict[str, dict[str, int]] = {}
    for name, ns in leaves_ns.items():
        leaves_by_group.setdefault(_group_name(name), {})[name] = ns * n_steps
    return Account(
        wall_ns=step_ns * len(rows),
        steps=len(rows) or None,
        leaves={name: ns * n_steps for name, ns in leaves_ns.items()},
        groups={group: ns * n_steps for group, ns in _sum_groups(leaves_ns).items()},
        parts=leaves_by_group,
        rows=rows,
    )


def _sum_groups(leaves: Mapping[str, int]) -> dict[str, int]:
    sums: dict[str, int] = dict.fromkeys(GROUPS, 0)
    for name, ns in leaves.items():
        sums[_group_name(name)] = sums.get(_group_name(name), 0) + ns
    return sums


def _group_name(leaf: str) -> str:
    return "step" if leaf == "step" else group_of(leaf)


def _build_recorded(
    leaves: Mapping[str, float], parts: Sequence[object], *, on_device: bool, windows: int
) -> RecordedRun:
    account = _build_account(leaves, COUNT, on_device=on_device)
    step_ns = account.wall_ns // COUNT
    uses = tuple(
        replace(use, share=use.wait_ns / account.wall_ns)
        if use.share is None and use.waits and step_ns
        else use
        for use in _parts_of_type(parts, LoaderUse)
    )
    lives = _parts_of_type(parts, ProcessTime) or (
        example_life({"set-up": 10, "step": account.wall_ns / SECOND, "tear-down": 1}),
    )
    files = _parts_of_type(parts, FileUse)
    other_processes = _parts_of_type(parts, CpuContention)
    return RecordedRun(
        life=RunLife("run", "run", ("python", "train.py"), "finished", 0, None, None, 0),
        timeline=Timeline(sum(life.wall_ns for life in lives), lives[0].leaves, lives),
        steps=_build_steps(step_ns),
        account=StepAccount(
            replace(account, rows=()), STEPS * windows, on_device and windows > 0, 0, None, 0, 1.0
        ),
        loaders=uses,
        machine=_parts_of_type(parts, Series),
        energy=None,
        cost=None,
        lines=_parts_of_type(parts, HotLine),
        unobserved=(),
        device="NVIDIA H200" if on_device else None,
        devices=1 if on_device else None,
        windows=windows,
        notes=(),
        footprint=Footprint(
            _parts_of_type(parts, SyncUse),
            _parts_of_type(parts, AllocatorUse),
            files[0] if files else None,
            _parts_of_type(parts, CallUse),
        ),
        contention=other_processes[0] if other_processes else None,
        page_faults=next(iter(_parts_of_type(parts, PageFaults)), None),
        optimizers=_parts_of_type(parts, OptimizerUse),
        host_code=_parts_of_type(parts, HostCode),
        call_lines=_parts_of_type(parts, CallLine),
        fetch_waits=_parts_of_type(parts, FetchWait),
    )


def _build_steps(step_ns: int) -> RunSteps:
    return RunSteps(
        count=COUNT,
        regular=COUNT,
        mean_ns=step_ns,
        median_ns=step_ns,
        p10_ns=step_ns,
        p90_ns=step_ns,
        noise=0.005,
        samples_per_s=None,
        device_median_ns=None,
        rule="optimizer",
        anchor="AdamW.step, train.py:60",
        profiled_only=False,
        noted=COUNT,
    )
