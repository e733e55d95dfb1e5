"""What a trial takes at least, and the error if its budget is too small for it."""

import math
from collections.abc import Sequence
from typing import Final

from gapless.errors import UsageError
from gapless.model.recording import Recording
from gapless.verify import lengths
from gapless.verify.arms.steady import (
    ArmSteps,
    block_means,
    find_steady_range,
    read_steps,
    step_time,
    use_device_times,
)
from gapless.verify.lengths import LengthInputs
from gapless.verify.specs import UNEDITED, Candidate, TrialSettings

_NS: Final = 1e-9
_MAX_OVERRUN: Final = 1.3  # times the budget: a run may have begun slower than an arm does
_MARGIN: Final = 1.2  # times what is just enough
_MIN_MINUTES_S: Final = 90.0  # time left, below which it is printed in seconds


def check_budget(
    candidates: Sequence[Candidate], settings: TrialSettings, recording: Recording
) -> None:
    """Raise ``UsageError`` if by the recorded run a budget is far too small for two pairs."""
    steps = read_steps(recording)
    if steps is None or not candidates:
        return
    start_s = (steps.start_ns + (steps.exit_ns or 0)) * _NS
    budget_s = settings.max_budget_s or settings.budget_s
    inputs = LengthInputs(
        steps, step_ns(steps), start_s, budget_s, has_turns=False, fixed_steps=settings.steps
    )
    needed_s = lengths.plan_length(inputs, candidates).needed_s
    if needed_s is not None and needed_s > _MAX_OVERRUN * budget_s:
        raise budget_error(needed_s + start_s, budget_s)


def round_up_budget(needed_s: float) -> float:
    """Return a sufficient budget for a time, in whole minutes."""
    return math.ceil(needed_s * _MARGIN / 60) * 60.0


class TrialBudgetError(UsageError):
    """A budget is too small for two pairs of arms, which take so long."""

    needed_s = 0.0


def budget_error(needed_s: float, budget_s: float) -> TrialBudgetError:
    """Return the error that a budget is too small for two pairs of arms, and which would do."""
    error = TrialBudgetError(
        f"two pairs of arms take about {format_time(needed_s)}, more than the budget of "
        f"{format_time(budget_s)}: --budget {round_up_budget(needed_s) / 60:.0f}m would do, "
        "or fewer edits"
    )
    error.needed_s = needed_s
    return error


def step_ns(steps: ArmSteps) -> float:
    """Return the step time of one arm by itself."""
    device_steps = use_device_times(steps)
    return step_time(block_means(device_steps, find_steady_range([(UNEDITED, device_steps)])))


def format_time(seconds: float) -> str:
    """Format a time: "45 s", "2 min 10 s"."""
    total_s = max(0, round(seconds))
    if total_s < _MIN_MINUTES_S:
        return f"{total_s} s"
    minutes, remaining_s = divmod(total_s, 60)
    return f"{minutes} min {remaining_s} s" if remaining_s else f"{minutes} min"
