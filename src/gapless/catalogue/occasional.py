"""What rules ask of checkpoints, logging and evaluation: how often, how long, from which line."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from gapless.catalogue.ruling import NotSeenError
from gapless.model.edit import Where
from gapless.model.footprint import CallUse
from gapless.model.seen import Seen

MOST = 100  # as seldom as that, and no more


@dataclass(frozen=True)
class Occasion:
    """Something done now and then: ns of a step, ns each time, times a step, the user's line."""

    step_ns: float
    each_ns: float | None
    per_step: float | None
    where: Where | None

    def every(self, step: float, least: float) -> int:
        """Give N such that every N-th time alone costs less than a share of the step."""
        wanted = ceil(self.step_ns / (least * step)) if step else MOST
        return max(2, min(MOST, wanted))

    @property
    def how_often(self) -> str:
        """Say how often it is done: "every 20 steps", "3.0 times a step"."""
        if not self.per_step:
            return "now and then"
        if self.per_step >= 1:
            return "in each step" if self.per_step < 1.5 else f"{self.per_step:.1f} times a step"  # noqa: PLR2004
        return f"every {1 / self.per_step:.0f} steps"


def calls(seen: Seen, kind: str, leaf: str) -> Occasion | None:
    """Give checkpoints or logging as lines of the user's make them; ``None`` where none was seen.

    Raises ``NotSeenError`` for a run that was not recorded.
    """
    recorded = seen.study.recorded
    if recorded is None or recorded.footprint is None:
        raise NotSeenError("run", "only a recorded run tells")
    mine = [one for one in recorded.footprint.calls if one.kind == kind]
    spent = seen.per_step(leaf)
    if not spent:
        return None
    count = sum(one.count for one in mine)
    total = sum(one.total_ns for one in mine)
    rates = [one.per_step for one in mine if one.per_step is not None]
    return Occasion(
        step_ns=spent,
        each_ns=total / count if count else None,
        per_step=sum(rates) if rates else None,
        where=_where(mine),
    )


def _where(uses: Sequence[CallUse]) -> Where | None:
    for one in uses:
        if one.file is not None and one.line is not None:
            return Where(one.file, one.line, one.function)
    return None
