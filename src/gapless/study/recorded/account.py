"""Where an un-profiled step goes: run rows joined with what the windows saw.

Docs: the account, a recorded run. All sums are integers over the counted steps of all ranks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gapless.model.account import Account
from gapless.model.leaf import GROUPS, group_of
from gapless.model.rounding import apportion
from gapless.model.run import RunSteps, StepAccount
from gapless.model.study import Study
from gapless.model.trace import Int64
from gapless.study.recorded.kinds import Kinds, inside, kinds
from gapless.study.recorded.rows import Charged, added, exposed
from gapless.study.recorded.training import counted

STEP: Final = "step"  # the group and leaf of what no window parts
LUMPY: Final = {  # run leaf → leaf of the account
    "observer": "idle.profiler",
    "collector": "idle.gc",
    "checkpoint": "idle.io_main.checkpoint",
    "logging": "idle.io_main.logging",
    "profiling": "idle.io_main.profiling",
    "evaluation": "idle.io_main.eval",
    "epoch-turn": "idle.data.start-up",
    "unknown": "idle.unknown",
}
_FROM_RUN_ROWS: Final = ("data", "io", "observer")  # groups of a window that run rows give
WORK: Final = ("busy.", "copy.", "comm.", "idle.device.gap", "idle.device.peer", "idle.graph")
_UNSEEN: Final = ("unknown", "idle.unknown")
Key = tuple[str, str]  # group, leaf


@dataclass(frozen=True)
class Steps:
    """Un-profiled steps: how many, their length together, and that by run leaf."""

    count: int
    wall_ns: int
    exposed: Mapping[str, int]  # what the device's backlog hides is part of ``step``
    whole: Mapping[str, int]
    lengths: Int64 | None = None  # without waits and lumps, of those that were noted one by one
    alone: bool = True  # nobody else used the processors meanwhile


def joined(
    every: Sequence[Charged], windows: Study | None, known: RunSteps | None, *, alone: bool
) -> StepAccount | None:
    """Join the run rows of all ranks that step with the windows; ``None`` without two steps.

    A step is at least as long as is ``known``; what the host's edges do not show of it is part of
    the step itself. ``alone``: nobody else used the processors.
    """
    step_ns = 0 if known is None else known.mean_ns
    backlog = (windows.backlog_ns if windows else None) or 0
    count = sum(int(one.training.edges.many[counted(one.training)].sum()) for one in every)
    if not count:
        return None
    whole = added([one.stepping for one in every])
    left = added([exposed(one, backlog) for one in every])
    edges = sum(whole.values())
    wall = count * step_ns if count * step_ns - edges > count else edges  # beyond rounding
    return step_account(Steps(count, wall, left, whole, inside(every), alone), windows)


def step_account(steps: Steps, windows: Study | None) -> StepAccount:
    """Join run rows with the windows' rows; the parts sum to ``steps.wall_ns``."""
    lumps: dict[Key, int] = {}
    for leaf, ns in steps.exposed.items():  # two may be one of the account: starts of workers
        if leaf != STEP:
            lumps[_leaf(leaf)] = lumps.get(_leaf(leaf), 0) + ns
    rows = len(windows.account.rows) if windows and windows.account.steps else 0
    on_device = windows is not None and any(
        one.row.device is not None for one in windows.account.rows
    )
    excess, scale, known = 0, None, Kinds(None, None)
    if windows is None or not rows:
        parts = {**lumps, (STEP, STEP): steps.wall_ns - sum(lumps.values())}
    elif on_device:
        parts, excess, scale = _on_device(steps, lumps, _seen(windows), rows)
    else:
        known = _kinds(steps, windows)
        inside = steps.wall_ns - sum(lumps.values())
        unlike = 0 if known.unlike is None else round(inside * known.unlike.time)
        within = _scaled(_weighed(windows, known), inside - unlike) or {_UNSEEN: inside - unlike}
        parts = _added({**lumps, (STEP, STEP): unlike}, within)
    return StepAccount(
        account=_account(steps, parts),
        refined_by=rows,
        on_device=on_device,
        hidden_ns=_waited(steps.whole) - _of_group("data", parts),
        backlog_ns=windows.backlog_ns if windows else None,
        excess_ns=excess,
        host_scale=scale,
        unlike=known.unlike,
        weighed=known.weights is not None,
    )


def _kinds(steps: Steps, windows: Study) -> Kinds:
    """Tell which kinds of steps the rows of windows are, without what run rows tell of."""
    if steps.lengths is None:
        return Kinds(None, None)
    every = windows.account.rows
    lengths = [sum(ns for leaf, ns in one.leaves.items() if _is_inside(leaf)) for one in every]
    return kinds(steps.lengths, np.array(lengths, np.int64), alone=steps.alone)


def _is_inside(leaf: str) -> bool:
    return group_of(leaf) not in _FROM_RUN_ROWS and leaf != "idle.gc"


def _weighed(windows: Study, known: Kinds) -> dict[Key, int]:
    """Give what the windows' rows hold, each as often as the steps that it stands for."""
    seen = _seen(windows)
    if known.weights is None:
        return seen
    leaves: dict[str, int] = {}
    for weight, row in zip(known.weights, windows.account.rows, strict=True):
        for leaf, ns in row.leaves.items():
            leaves[leaf] = leaves.get(leaf, 0) + weight * ns
    plain: dict[str, int] = {}
    for (_, leaf), ns in seen.items():
        plain[leaf] = plain.get(leaf, 0) + ns
    return {key: leaves.get(key[1], 0) * ns // max(1, plain[key[1]]) for key, ns in seen.items()}


def _on_device(
    steps: Steps, lumps: Mapping[Key, int], seen: Mapping[Key, int], rows: int
) -> tuple[dict[Key, int], int, float | None]:
    """Part the time of a device: its work first, then lumps, then the host, then what is left.

    Work takes on the device what it took in the windows. Lumps (what the backlog does not hide) get
    what they need of the rest, and the host no more than in the windows, in which it was slower.
    """
    work = {key: ns for key, ns in seen.items() if key[1].startswith(WORK)}
    other = {key: ns for key, ns in seen.items() if key not in work}
    room = steps.wall_ns
    parts: dict[Key, int] = {}
    scale: float | None = None
    for some, need in (
        (work, sum(work.values()) * steps.count // rows),
        (lumps, sum(lumps.values())),
        (other, sum(other.values()) * steps.count // rows),
    ):
        given = min(room, need)
        scaled = _scaled(some, given)
        parts = _added(parts, scaled)
        room -= sum(scaled.values())
        scale = given / need if need else None  # of the last: the host's
    return _added(parts, {_UNSEEN: room}), room, scale


def _seen(windows: Study) -> dict[Key, int]:
    """Give what the windows' rows hold beside what run rows give."""
    return {
        (group, leaf): ns
        for group, leaves in windows.account.parts.items()
        for leaf, ns in leaves.items()
        if group not in _FROM_RUN_ROWS and leaf != "idle.gc"
    }


def _scaled(parts: Mapping[Key, int], total: int) -> dict[Key, int]:
    return dict(zip(parts, apportion(list(parts.values()), total), strict=True)) if parts else {}


def _added(one: Mapping[Key, int], other: Mapping[Key, int]) -> dict[Key, int]:
    return {key: one.get(key, 0) + other.get(key, 0) for key in (*one, *other)}


def leaf_of(run_leaf: str) -> str:
    """Give the leaf of the account that a run leaf is."""
    return LUMPY.get(run_leaf) or f"idle.{run_leaf}"


def _leaf(run_leaf: str) -> Key:
    leaf = leaf_of(run_leaf)
    return group_of(leaf), leaf


def _waited(leaves: Mapping[str, int]) -> int:
    return sum(ns for leaf, ns in leaves.items() if leaf != STEP and _leaf(leaf)[0] == "data")


def _of_group(name: str, parts: Mapping[Key, int]) -> int:
    return sum(ns for (group, _), ns in parts.items() if group == name)


def _account(steps: Steps, parts: Mapping[Key, int]) -> Account:
    below: dict[str, dict[str, int]] = {}
    leaves: dict[str, int] = {}
    for (group, leaf), ns in parts.items():
        if ns:
            below.setdefault(group, {})[leaf] = ns
            leaves[leaf] = leaves.get(leaf, 0) + ns
    groups = {group: sum(below.get(group, {}).values()) for group in _groups(below)}
    whole = steps.wall_ns == sum(leaves.values()) == sum(groups.values())
    if not whole or min(leaves.values(), default=0) < 0:
        msg = f"steps of {steps.wall_ns} ns sum to {sum(leaves.values())} ns over their leaves"
        raise AssertionError(msg)
    return Account(steps.wall_ns, steps.count, leaves, groups, below, rows=())


def _groups(below: Mapping[str, object]) -> Sequence[str]:
    return [*GROUPS, *(group for group in below if group not in GROUPS)]
