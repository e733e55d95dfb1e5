"""Where a step would go after a change: its account, not only its length.

What happens within windows is simulated, and the simulated trace is charged like any other
(``replay.predict.predicted_trace``). What lies outside of them (checkpoints, evaluation) is as in
the run, less what the change removes. Where a loader is simulated by its queue, no trace shows its
waits: they are what remains of the predicted step. Everything is scaled to that step, so that it
sums to it exactly.
"""

from collections.abc import Collection, Mapping, Sequence

from gapless.model.account import Account
from gapless.model.change import Change, LoaderChange, Prediction
from gapless.model.edit import Outcome
from gapless.model.leaf import group_of
from gapless.pricing.price import Prices, remaining_shares, split_outside

_DATA = "data"


def predict_outcome(
    prices: Prices, changes: Sequence[Change], prediction: Prediction
) -> Outcome | None:
    """Return where a step would go with some changes; ``None`` where that cannot be simulated."""
    step, speedup = prices.evidence.step_ns, prediction.speedup
    if step is None or speedup is None:
        return None
    drops, inner_changes = split_outside(prices.evidence, changes)
    window_account = (
        prices.simulator.account(inner_changes) if inner_changes else prices.evidence.account
    )
    if window_account is None and all(isinstance(change, LoaderChange) for change in inner_changes):
        window_account = prices.evidence.account  # its queue alone changes
    if window_account is None or not window_account.steps:
        return None
    new_step_ns = step / speedup.mid
    outside_ns = {
        leaf: share * step for leaf, share in remaining_shares(prices.evidence, drops).items()
    }
    groups = _scale_groups(
        _window_groups(window_account, outside_ns),
        new_step_ns - sum(outside_ns.values()),
        by_queue=_changes_loader(inner_changes),
    )
    for leaf, ns in outside_ns.items():
        groups[group_of(leaf)] = groups.get(group_of(leaf), 0.0) + ns
    return Outcome(round(new_step_ns), _round_groups(groups, round(new_step_ns)))


def _changes_loader(changes: Sequence[Change]) -> bool:
    return any(isinstance(change, LoaderChange) for change in changes)


def _window_groups(account: Account, outside: Collection[str]) -> dict[str, float]:
    """Return what a step holds of each group, in ns, without what lies outside of windows."""
    steps = account.steps or 1
    group_ns = {name: ns / steps for name, ns in account.groups.items()}
    for leaf, ns in account.leaves.items():
        if leaf in outside:
            group = group_of(leaf)
            group_ns[group] = max(0.0, group_ns.get(group, 0.0) - ns / steps)
    return group_ns


def _scale_groups(
    groups: Mapping[str, float], target_ns: float, *, by_queue: bool
) -> dict[str, float]:
    """Scale groups to a sum: by waits for data where a queue was simulated, else in proportion."""
    group_ns, target_ns = dict(groups), max(target_ns, 0.0)
    if by_queue:
        other_ns = sum(ns for name, ns in group_ns.items() if name != _DATA)
        group_ns[_DATA] = max(0.0, target_ns - other_ns)
    total = sum(group_ns.values())
    return {name: ns * target_ns / total for name, ns in group_ns.items()} if total else {}


def _round_groups(groups: Mapping[str, float], total_ns: int) -> dict[str, int]:
    """Round so that the sum is exact: cumulative sums are rounded, not each part."""
    rounded_ns: dict[str, int] = {}
    exact_ns, assigned_ns = 0.0, 0
    for index, (name, ns) in enumerate(groups.items(), start=1):
        exact_ns += ns
        upto_ns = total_ns if index == len(groups) else min(total_ns, round(exact_ns))
        rounded_ns[name] = upto_ns - assigned_ns
        assigned_ns = upto_ns
    return rounded_ns
