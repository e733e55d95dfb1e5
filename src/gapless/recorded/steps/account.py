"""Where an un-profiled step goes: run rows joined with what the windows saw.

Docs: the account, a recorded run. All sums are integers over the counted steps of all ranks.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from gapless.model.account import Account
from gapless.model.leaf import DEVICE_WORK, GROUPS, group_of
from gapless.model.rounding import apportion
from gapless.model.run import RunSteps, StepAccount
from gapless.model.study import Study
from gapless.model.trace import Int64
from gapless.recorded.steps.kinds import StepKinds, match_kinds, step_lengths
from gapless.recorded.steps.rows import TrainingRow, exposed_leaves, sum_leaves
from gapless.recorded.training.processes import counted_steps

STEP: Final = "step"  # the group and leaf of what no window splits
LUMP_LEAVES: Final = {  # run leaf → leaf of the account
    "observer": "idle.profiler",
    "collector": "idle.gc",
    "checkpoint": "idle.io_main.checkpoint",
    "logging": "idle.io_main.logging",
    "profiling": "idle.io_main.profiling",
    "evaluation": "idle.io_main.eval",
    "epoch-turn": "idle.data.start-up",
    "unknown": "idle.unknown",
}
_RUN_ROW_GROUPS: Final = ("data", "io", "observer")  # groups of a window that come from run rows
_UNKNOWN: Final = ("unknown", "idle.unknown")
LeafKey = tuple[str, str]  # group, leaf


class StepTotals(Struct, frozen=True):
    """Un-profiled steps: how many, their total length, and that by run leaf."""

    count: int
    wall_ns: int
    exposed_ns: Mapping[str, int]  # what the device's backlog hides is in the step's own leaf
    charged_ns: Mapping[str, int]
    lengths: Int64 | None = None  # without waits and lumps, of steps recorded one by one
    undisturbed: bool = True  # nobody else used the processors meanwhile


def join_windows(
    training_rows: Sequence[TrainingRow],
    windows: Study | None,
    run_steps: RunSteps | None,
    *,
    undisturbed: bool,
) -> StepAccount | None:
    """Join the run rows of all ranks that step with the windows; ``None`` without two steps.

    A step is at least as long as ``run_steps`` has it; what the host's edges do not show of it is
    part of the step itself. ``undisturbed``: nobody else used the processors.
    """
    step_ns = 0 if run_steps is None else run_steps.mean_ns
    backlog_ns = (windows.backlog_ns if windows else None) or 0
    count = sum(
        int(row.training.edges.step_counts[counted_steps(row.training)].sum())
        for row in training_rows
    )
    if not count:
        return None
    charged_ns = sum_leaves([row.step_leaves for row in training_rows])
    exposed_ns = sum_leaves([exposed_leaves(row, backlog_ns) for row in training_rows])
    edges_ns = sum(charged_ns.values())
    wall_ns = count * step_ns if count * step_ns - edges_ns > count else edges_ns  # beyond rounding
    return step_account(
        StepTotals(
            count, wall_ns, exposed_ns, charged_ns, step_lengths(training_rows), undisturbed
        ),
        windows,
    )


def step_account(steps: StepTotals, windows: Study | None) -> StepAccount:
    """Join run rows with the windows' rows; the parts sum to ``steps.wall_ns``."""
    lumps: dict[LeafKey, int] = {}
    for leaf, ns in steps.exposed_ns.items():  # two may be one of the account: starts of workers
        if leaf != STEP:
            lumps[_leaf_key(leaf)] = lumps.get(_leaf_key(leaf), 0) + ns
    n_rows = len(windows.account.rows) if windows and windows.account.steps else 0
    on_device = windows is not None and any(
        device_row.row.device is not None for device_row in windows.account.rows
    )
    excess_ns, scale, kinds = 0, None, StepKinds(None, None)
    if windows is None or not n_rows:
        leaf_ns = {**lumps, (STEP, STEP): steps.wall_ns - sum(lumps.values())}
    elif on_device:
        leaf_ns, excess_ns, scale = _split_device_time(
            steps, lumps, _window_leaves(windows), n_rows
        )
    else:
        kinds = _step_kinds(steps, windows)
        inside_ns = steps.wall_ns - sum(lumps.values())
        unlike_ns = 0 if kinds.unlike is None else round(inside_ns * kinds.unlike.time)
        window_ns = _scale_leaves(_weigh_leaves(windows, kinds), inside_ns - unlike_ns) or {
            _UNKNOWN: inside_ns - unlike_ns
        }
        leaf_ns = _add_leaves({**lumps, (STEP, STEP): unlike_ns}, window_ns)
    return StepAccount(
        account=_build_account(steps, leaf_ns),
        refined_by=n_rows,
        on_device=on_device,
        hidden_ns=_data_wait_ns(steps.charged_ns) - _group_ns("data", leaf_ns),
        backlog_ns=windows.backlog_ns if windows else None,
        excess_ns=excess_ns,
        host_scale=scale,
        unlike=kinds.unlike,
        weighed=kinds.weights is not None,
    )


def _step_kinds(steps: StepTotals, windows: Study) -> StepKinds:
    """Return which kinds of steps the rows of windows are, apart from what run rows cover."""
    if steps.lengths is None:
        return StepKinds(None, None)
    rows = windows.account.rows
    lengths = [sum(ns for leaf, ns in row.leaves.items() if _is_from_windows(leaf)) for row in rows]
    return match_kinds(steps.lengths, np.array(lengths, np.int64), undisturbed=steps.undisturbed)


def _is_from_windows(leaf: str) -> bool:
    return group_of(leaf) not in _RUN_ROW_GROUPS and leaf != "idle.gc"


def _weigh_leaves(windows: Study, kinds: StepKinds) -> dict[LeafKey, int]:
    """Return what the windows' rows hold, each as often as the steps that it stands for."""
    window_ns = _window_leaves(windows)
    if kinds.weights is None:
        return window_ns
    weighted_ns: dict[str, int] = {}
    for weight, row in zip(kinds.weights, windows.account.rows, strict=True):
        for leaf, ns in row.leaves.items():
            weighted_ns[leaf] = weighted_ns.get(leaf, 0) + weight * ns
    plain_ns: dict[str, int] = {}
    for (_, leaf), ns in window_ns.items():
        plain_ns[leaf] = plain_ns.get(leaf, 0) + ns
    return {
        key: weighted_ns.get(key[1], 0) * ns // max(1, plain_ns[key[1]])
        for key, ns in window_ns.items()
    }


def _split_device_time(
    steps: StepTotals, lumps: Mapping[LeafKey, int], window_ns: Mapping[LeafKey, int], n_rows: int
) -> tuple[dict[LeafKey, int], int, float | None]:
    """Split the time of a device: its work first, then lumps, then the host, then the remainder.

    Work takes on the device what it took in the windows. Lumps (what the backlog does not hide) get
    what they need of the rest, and the host no more than in the windows, in which it was slower.
    """
    work_ns = {key: ns for key, ns in window_ns.items() if key[1].startswith(DEVICE_WORK)}
    host_ns = {key: ns for key, ns in window_ns.items() if key not in work_ns}
    remaining_ns = steps.wall_ns
    leaf_ns: dict[LeafKey, int] = {}
    scale: float | None = None
    for shares, need_ns in (
        (work_ns, sum(work_ns.values()) * steps.count // n_rows),
        (lumps, sum(lumps.values())),
        (host_ns, sum(host_ns.values()) * steps.count // n_rows),
    ):
        given_ns = min(remaining_ns, need_ns)
        scaled_ns = _scale_leaves(shares, given_ns)
        leaf_ns = _add_leaves(leaf_ns, scaled_ns)
        remaining_ns -= sum(scaled_ns.values())
        scale = given_ns / need_ns if need_ns else None  # of the last: the host's
    return _add_leaves(leaf_ns, {_UNKNOWN: remaining_ns}), remaining_ns, scale


def _window_leaves(windows: Study) -> dict[LeafKey, int]:
    """Return what the windows' rows hold besides what comes from run rows."""
    return {
        (group, leaf): ns
        for group, group_leaves in windows.account.parts.items()
        for leaf, ns in group_leaves.items()
        if group not in _RUN_ROW_GROUPS and leaf != "idle.gc"
    }


def _scale_leaves(leaf_ns: Mapping[LeafKey, int], total_ns: int) -> dict[LeafKey, int]:
    return (
        dict(zip(leaf_ns, apportion(list(leaf_ns.values()), total_ns), strict=True))
        if leaf_ns
        else {}
    )


def _add_leaves(
    first_ns: Mapping[LeafKey, int], second_ns: Mapping[LeafKey, int]
) -> dict[LeafKey, int]:
    return {key: first_ns.get(key, 0) + second_ns.get(key, 0) for key in (*first_ns, *second_ns)}


def leaf_of(run_leaf: str) -> str:
    """Return the leaf of the account for a run leaf."""
    return LUMP_LEAVES.get(run_leaf) or f"idle.{run_leaf}"


def _leaf_key(run_leaf: str) -> LeafKey:
    leaf = leaf_of(run_leaf)
    return group_of(leaf), leaf


def _data_wait_ns(leaf_ns: Mapping[str, int]) -> int:
    return sum(ns for leaf, ns in leaf_ns.items() if leaf != STEP and _leaf_key(leaf)[0] == "data")


def _group_ns(group: str, leaf_ns: Mapping[LeafKey, int]) -> int:
    return sum(ns for (leaf_group, _), ns in leaf_ns.items() if leaf_group == group)


def _build_account(steps: StepTotals, leaf_ns: Mapping[LeafKey, int]) -> Account:
    group_leaves: dict[str, dict[str, int]] = {}
    leaves: dict[str, int] = {}
    for (group, leaf), ns in leaf_ns.items():
        if ns:
            group_leaves.setdefault(group, {})[leaf] = ns
            leaves[leaf] = leaves.get(leaf, 0) + ns
    groups = {
        group: sum(group_leaves.get(group, {}).values()) for group in _order_groups(group_leaves)
    }
    is_exact = steps.wall_ns == sum(leaves.values()) == sum(groups.values())
    if not is_exact or min(leaves.values(), default=0) < 0:
        msg = f"steps of {steps.wall_ns} ns sum to {sum(leaves.values())} ns over their leaves"
        raise AssertionError(msg)
    return Account(steps.wall_ns, steps.count, leaves, groups, group_leaves, rows=())


def _order_groups(group_leaves: Mapping[str, object]) -> Sequence[str]:
    return [*GROUPS, *(group for group in group_leaves if group not in GROUPS)]
