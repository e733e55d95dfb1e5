"""Ranks below one another: a mean step of each as a bar, all to one scale.

Of a recorded run, as its windows show them: what runs on devices is seen in these alone.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from gapless.model.study import Study
from gapless.page.bars import BarPart, bar_parts
from gapless.report.text.numbers import duration

_MAX_BARS: Final = 64  # of more ranks, the slowest are drawn


class RankBar(Struct, frozen=True):
    """A mean step of one rank."""

    caption: str
    parts: tuple[BarPart, ...]


def rank_bars(study: Study) -> tuple[RankBar, ...]:
    """Return a bar for each rank; none where there is one rank, or none is known."""
    steps = _mean_steps(study)
    if len(steps) < 2:  # noqa: PLR2004 - one rank is the account itself
        return ()
    lengths = {rank: sum(groups.values()) for rank, groups in steps.items()}
    longest_ns = max(lengths.values())
    drawn = sorted(sorted(lengths, key=lambda rank: -lengths[rank])[:_MAX_BARS])
    return tuple(
        RankBar(f"rank {rank}, {duration(lengths[rank])}", bar_parts(steps[rank], longest_ns))
        for rank in drawn
    )


def _mean_steps(study: Study) -> dict[int, Mapping[str, float]]:
    """Return the groups of a mean step by rank, as windows or traces show them, in ns."""
    sums: dict[int, dict[str, float]] = {}
    counts: dict[int, int] = {}
    for account in study.account.rows:
        rank = account.row.rank
        if rank is None:
            continue
        groups = sums.setdefault(rank, {})
        counts[rank] = counts.get(rank, 0) + 1
        for group, ns in account.groups.items():
            groups[group] = groups.get(group, 0.0) + ns
    return {
        rank: {group: ns / counts[rank] for group, ns in groups.items()}
        for rank, groups in sums.items()
    }
