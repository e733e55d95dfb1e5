"""Where a step would go once something is changed: its account, not only its length.

What happens within windows is played, and the played trace is charged as any other
(``replay.retimed``). What lies outside of them (checkpoints, evaluation) is as the run had it, less
what goes. Where a loader is played by its queue, no trace tells its waits: they are what is left of
the predicted step. All is scaled to that step, so that it sums to it exactly.
"""

from collections.abc import Collection, Mapping, Sequence

from gapless.model.account import Account
from gapless.model.change import Change, Feed, Predicted
from gapless.model.edit import Outcome
from gapless.model.leaf import group_of
from gapless.study.price import Prices, parted, remaining

_DATA = "data"


def outcome(prices: Prices, changes: Sequence[Change], predicted: Predicted) -> Outcome | None:
    """Give where a step would go with some changes made; ``None`` where that is not played."""
    step, speedup = prices.seen.step_ns, predicted.speedup
    if step is None or speedup is None:
        return None
    drops, rest = parted(prices.seen, changes)
    within = prices.player.account(rest) if rest else prices.seen.account
    if within is None and all(isinstance(one, Feed) for one in rest):
        within = prices.seen.account  # its queue alone changes
    if within is None or not within.steps:
        return None
    left = step / speedup.mid
    outside = {leaf: share * step for leaf, share in remaining(prices.seen, drops).items()}
    groups = _scaled(_inner(within, outside), left - sum(outside.values()), fed=_fed(rest))
    for leaf, ns in outside.items():
        groups[group_of(leaf)] = groups.get(group_of(leaf), 0.0) + ns
    return Outcome(round(left), _whole(groups, round(left)))


def _fed(changes: Sequence[Change]) -> bool:
    return any(isinstance(one, Feed) for one in changes)


def _inner(account: Account, outside: Collection[str]) -> dict[str, float]:
    """Give what a step holds of each group, in ns, without what lies outside of windows."""
    steps = account.steps or 1
    found = {name: ns / steps for name, ns in account.groups.items()}
    for leaf, ns in account.leaves.items():
        if leaf in outside:
            group = group_of(leaf)
            found[group] = max(0.0, found.get(group, 0.0) - ns / steps)
    return found


def _scaled(groups: Mapping[str, float], whole: float, *, fed: bool) -> dict[str, float]:
    """Let groups sum to so much: by waits for data where a queue was played, else by proportion."""
    found, whole = dict(groups), max(whole, 0.0)
    if fed:
        others = sum(ns for name, ns in found.items() if name != _DATA)
        found[_DATA] = max(0.0, whole - others)
    total = sum(found.values())
    return {name: ns * whole / total for name, ns in found.items()} if total else {}


def _whole(groups: Mapping[str, float], total: int) -> dict[str, int]:
    """Round so that the sum is exact: cumulated sums are rounded, not each part."""
    found: dict[str, int] = {}
    exact, given = 0.0, 0
    for at, (name, ns) in enumerate(groups.items(), start=1):
        exact += ns
        upto = total if at == len(groups) else min(total, round(exact))
        found[name] = upto - given
        given = upto
    return found
