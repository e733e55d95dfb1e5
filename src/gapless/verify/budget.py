"""What a trial takes at least, and what is said where its budget does not hold that."""

import math
from collections.abc import Sequence
from typing import Final

from gapless.errors import UsageError
from gapless.model.recording import Recording
from gapless.verify import lengths
from gapless.verify.lengths import Known
from gapless.verify.steady import (
    Stepped,
    blocks,
    measured,
    step_time,
    stepped,
    timed_on_device,
)
from gapless.verify.wanted import UNEDITED, Candidate, TrialSettings

_NS: Final = 1e-9
_FAR: Final = 1.3  # times the budget: a run may have begun slower than an arm does
_MORE: Final = 1.2  # than what is just enough
_SOON_S: Final = 90.0  # time left, below which it is told in seconds


def forecast(wanted: Sequence[Candidate], settings: TrialSettings, known: Recording) -> None:
    """Raise ``UsageError`` where a recorded run tells that a budget holds no two pairs, by far."""
    steps = stepped(known)
    if steps is None or not wanted:
        return
    start_s = (steps.start_ns + (steps.exit_ns or 0)) * _NS
    budget_s = settings.most_s or settings.budget_s
    told = Known(steps, step_ns(steps), start_s, budget_s, turns=False, steps=settings.steps)
    needed = lengths.length(told, wanted).short_s
    if needed is not None and needed > _FAR * budget_s:
        raise too_short(needed + start_s, budget_s)


def enough(needed_s: float) -> float:
    """Give a budget that holds what needs so long, in whole minutes."""
    return math.ceil(needed_s * _MORE / 60) * 60.0


def too_short(needed_s: float, budget_s: float) -> UsageError:
    """Give the error that a budget does not hold two pairs of arms, and which one would."""
    return UsageError(
        f"two pairs of arms take about {spoken(needed_s)}, more than the budget of "
        f"{spoken(budget_s)}: --budget {enough(needed_s) / 60:.0f}m would do, or fewer edits"
    )


def step_ns(steps: Stepped) -> float:
    """Give the step time of one arm by itself."""
    timed = timed_on_device(steps)
    return step_time(blocks(timed, measured([(UNEDITED, timed)])))


def spoken(seconds: float) -> str:
    """Say a time: "45 s", "2 min 10 s"."""
    whole = max(0, round(seconds))
    if whole < _SOON_S:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"
