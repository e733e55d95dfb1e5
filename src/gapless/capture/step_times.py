"""Step times over the counted rows, and what the slowest ones lost in."""

from collections.abc import Sequence

from gapless.model.account import Account, RowAccount
from gapless.model.study import Steps

N_SLOWEST = 3


def step_times(account: Account, rule: str) -> Steps | None:
    """Return median, spread and slowest rows; ``None`` where the capture has no steps."""
    if account.steps is None or not account.rows:
        return None
    rows = sorted(account.rows, key=lambda row: row.row.end - row.row.start)
    counted_steps = {row.row.step for row in rows}
    lengths = [row.row.end - row.row.start for row in rows]
    return Steps(
        count=len(counted_steps),
        left_out=len({row.row.step for row in account.left_out} - counted_steps),
        median_ns=quantile(lengths, 0.5),
        p10_ns=quantile(lengths, 0.1),
        p90_ns=quantile(lengths, 0.9),
        rule=rule,
        slowest=_slowest_rows(rows),
        typical=rows[(len(rows) - 1) // 2],
    )


def _slowest_rows(rows: Sequence[RowAccount]) -> tuple[RowAccount, ...]:
    """Return the longest row of each of the slowest steps: a step is slow on all ranks at once."""
    longest = {row.row.step: row for row in rows}  # ascending: the last one wins
    order = sorted(longest.values(), key=lambda row: row.row.start - row.row.end)
    return tuple(order[:N_SLOWEST])


def quantile(ordered: list[int], share: float) -> int:
    """Interpolate linearly between the two nearest values, as NumPy does by default."""
    position = share * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + round((ordered[high] - ordered[low]) * (position - low))
