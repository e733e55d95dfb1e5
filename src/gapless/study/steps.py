"""Step times over the counted rows, and what the slowest ones lost in."""

from collections.abc import Sequence

from gapless.model.account import Account, RowAccount
from gapless.model.study import Steps

SLOWEST = 3


def step_times(account: Account, rule: str) -> Steps | None:
    """Give median, spread and slowest rows; ``None`` where the capture has no steps."""
    if account.steps is None or not account.rows:
        return None
    rows = sorted(account.rows, key=lambda one: one.row.end - one.row.start)
    counted = {one.row.step for one in rows}
    lengths = [one.row.end - one.row.start for one in rows]
    return Steps(
        count=len(counted),
        left_out=len({one.row.step for one in account.left_out} - counted),
        median_ns=quantile(lengths, 0.5),
        p10_ns=quantile(lengths, 0.1),
        p90_ns=quantile(lengths, 0.9),
        rule=rule,
        slowest=_slowest(rows),
        typical=rows[(len(rows) - 1) // 2],
    )


def _slowest(rows: Sequence[RowAccount]) -> tuple[RowAccount, ...]:
    """Give the longest row of each of the slowest steps: a step is slow on all ranks at once."""
    longest = {one.row.step: one for one in rows}  # ascending: the last one wins
    order = sorted(longest.values(), key=lambda one: one.row.start - one.row.end)
    return tuple(order[:SLOWEST])


def quantile(ordered: list[int], share: float) -> int:
    """Interpolate linearly between the two nearest values, as NumPy does by default."""
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + round((ordered[high] - ordered[low]) * (at - low))
