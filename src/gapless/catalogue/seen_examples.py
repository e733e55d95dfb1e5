"""What a rule sees, stated in a few words: runs for the figures of the rules.

::

    seen(
        gpu(loader()),                                   # facts, of ``catalogue.examples``
        {"busy.math": 60, "idle.data.decode": 40},       # ms of a step by leaf: it takes 100 ms
        used(loader(), {"decode": 30, "collate": 10}),   # ms of a wait by stage
        operator("aten::item", calls=20, host_ms=1.5),   # of a step
    )

Times are in milliseconds of one step; the parts are made by ``catalogue.seen_parts``. The study has
``COUNT`` un-profiled steps, and windows of ``STEPS`` steps that its tables are of. Where steps are
drawn, ``drawn`` takes the leaves from the drawing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gapless.catalogue.drawing import seen as drawing_seen
from gapless.catalogue.seen_parts import COUNT, MS, SECOND, STEPS, lived
from gapless.catalogue.traced import traced
from gapless.model.account import Account, RowAccount
from gapless.model.facts import Facts
from gapless.model.footprint import AllocatorUse, CallUse, FileUse, Footprint, SyncUse
from gapless.model.host_code import CallLine, HostCode, HotLine
from gapless.model.leaf import GROUPS, group_of
from gapless.model.ledger import Row
from gapless.model.machine import Constants
from gapless.model.run import (
    LoaderUse,
    OptimizerUse,
    Others,
    ProcessTime,
    Recorded,
    RunLife,
    RunSteps,
    Series,
    StepAccount,
    Timeline,
)
from gapless.model.seen import Seen
from gapless.model.study import RunInfo, Site, Study, StudyHealth
from gapless.model.tables import (
    CollectiveRow,
    Copy,
    Kernel,
    Line,
    Memory,
    Operator,
    Range,
    Tables,
)
from gapless.model.work import Work

_TABLES: Final[Mapping[str, type]] = {
    "operators": Operator,
    "kernels": Kernel,
    "copies": Copy,
    "collectives": CollectiveRow,
    "ranges": Range,
    "memory": Memory,
    "lines": Line,
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


def seen(
    facts: Facts | None,
    leaves: Mapping[str, float],
    *parts: object,
    in_windows: Mapping[str, float] | None = None,
    on_device: bool | None = None,
) -> Seen:
    """Give what a rule sees of a run whose steps hold these leaves, in ms of a step.

    ``facts``: ``None`` for a foreign trace, of which nothing was recorded. ``parts``: rows of
    tables, work of operators, sites, loaders' uses, the machine's constants and series, what the
    footprint and the timeline are made of; each finds its place by its type. ``in_windows``: the
    leaves there, where they differ; an empty one: no window was kept. ``on_device``: by default,
    whether the facts name a device.
    """
    if on_device is None:
        on_device = facts is None or facts.machine.device is not None
    account = _account(leaves if in_windows is None else in_windows, STEPS, on_device=on_device)
    study = Study(
        run=RunInfo(("trace.json",), (0,), 1, None, ()),
        health=_HEALTH,
        steps=None,
        account=account,
        tables=Tables(**{name: _of(parts, kind) for name, kind in _TABLES.items()}),
        work=_of(parts, Work),
        sites=_of(parts, Site),
    )
    constants = next(iter(_of(parts, Constants)), None)
    if facts is None:
        return Seen(study, traced(study), constants)
    recorded = _recorded(leaves, parts, on_device=on_device, windows=int(in_windows != {}))
    return Seen(replace(study, recorded=recorded), facts, constants)


def drawn(drawing: str, facts: Facts, *parts: object) -> Seen:
    """Give what a rule sees of a recorded run whose steps are drawn (``catalogue.drawing``)."""
    found = drawing_seen(drawing)
    account = found.study.account
    many = account.steps or 1
    leaves = {name: ns / many / MS for name, ns in account.leaves.items()}
    return seen(facts, leaves, *parts, on_device=found.on_device)


def changed(one: Seen, **recorded: Any) -> Seen:  # noqa: ANN401 - any field
    """Give the same with other fields of what was recorded ("machine", "others", "notes" …)."""
    known = one.study.recorded
    if known is None:
        raise ValueError("nothing was recorded of a foreign trace")
    return replace(one, study=replace(one.study, recorded=replace(known, **recorded)))


def stepped(one: Seen, **steps: Any) -> Seen:  # noqa: ANN401 - any field
    """Give the same with other figures of its steps ("p90_ns", "noise", "samples_per_s" …)."""
    known = one.study.recorded
    if known is None or known.steps is None:
        raise ValueError("nothing was recorded of a foreign trace")
    return changed(one, steps=replace(known.steps, **steps))


def _of(parts: Sequence[object], kind: type) -> tuple[Any, ...]:
    return tuple(one for one in parts if isinstance(one, kind))


def _account(leaves: Mapping[str, float], steps: int, *, on_device: bool) -> Account:
    """Sum steps that are all alike; no leaves: there were none."""
    step = {name: round(ms * MS) for name, ms in leaves.items() if ms}
    length = sum(step.values())
    rows = tuple(
        RowAccount(
            Row(0, 0 if on_device else None, at, at * length, (at + 1) * length, left_out=False),
            step,
            _groups(step),
        )
        for at in range(steps if step else 0)
    )
    below: dict[str, dict[str, int]] = {}
    for name, ns in step.items():
        below.setdefault(_group(name), {})[name] = ns * steps
    return Account(
        wall_ns=length * len(rows),
        steps=len(rows) or None,
        leaves={name: ns * steps for name, ns in step.items()},
        groups={group: ns * steps for group, ns in _groups(step).items()},
        parts=below,
        rows=rows,
    )


def _groups(leaves: Mapping[str, int]) -> dict[str, int]:
    sums: dict[str, int] = dict.fromkeys(GROUPS, 0)
    for name, ns in leaves.items():
        sums[_group(name)] = sums.get(_group(name), 0) + ns
    return sums


def _group(leaf: str) -> str:
    return "step" if leaf == "step" else group_of(leaf)


def _recorded(
    leaves: Mapping[str, float], parts: Sequence[object], *, on_device: bool, windows: int
) -> Recorded:
    account = _account(leaves, COUNT, on_device=on_device)
    step = account.wall_ns // COUNT
    uses = tuple(
        replace(one, share=one.wait_ns / account.wall_ns)
        if one.share is None and one.waits and step
        else one
        for one in _of(parts, LoaderUse)
    )
    lives = _of(parts, ProcessTime) or (
        lived({"set-up": 10, "step": account.wall_ns / SECOND, "tear-down": 1}),
    )
    files = _of(parts, FileUse)
    others = _of(parts, Others)
    return Recorded(
        life=RunLife("run", "run", ("python", "train.py"), "finished", 0, None, None, 0),
        timeline=Timeline(sum(one.wall_ns for one in lives), lives[0].leaves, lives),
        steps=_steps(step),
        account=StepAccount(
            replace(account, rows=()), STEPS * windows, on_device and windows > 0, 0, None, 0, 1.0
        ),
        loaders=uses,
        machine=_of(parts, Series),
        energy=None,
        cost=None,
        lines=_of(parts, HotLine),
        unseen=(),
        device="NVIDIA H200" if on_device else None,
        devices=1 if on_device else None,
        windows=windows,
        notes=(),
        footprint=Footprint(
            _of(parts, SyncUse),
            _of(parts, AllocatorUse),
            files[0] if files else None,
            _of(parts, CallUse),
        ),
        others=others[0] if others else None,
        optimizers=_of(parts, OptimizerUse),
        host_code=_of(parts, HostCode),
        call_lines=_of(parts, CallLine),
    )


def _steps(step: int) -> RunSteps:
    return RunSteps(
        count=COUNT,
        regular=COUNT,
        mean_ns=step,
        median_ns=step,
        p10_ns=step,
        p90_ns=step,
        noise=0.005,
        samples_per_s=None,
        device_median_ns=None,
        rule="optimizer",
        anchor="AdamW.step, train.py:60",
        profiled_only=False,
        noted=COUNT,
    )
