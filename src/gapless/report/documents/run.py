"""What the JSON of a study has of a recorded run alone: its steps, its account, its parts."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from gapless.model.rhythm import Phase, UnlikeSteps
from gapless.model.run import RecordedRun
from gapless.model.study import Steps
from gapless.report.documents.from_model import fill


class StepObject(Struct, frozen=True):
    """Step times. ``count`` is of the capture or run, ``profiled`` of those in ``account``.

    Of a run, times are of the ``regular`` steps that no profiler touched: the mean of all, the rest
    of those ``noted`` one by one.
    """

    count: int
    median_ns: int
    p10_ns: int
    p90_ns: int
    profiled: int
    samples_per_s: float | None
    noise: float | None
    rule: str
    mean_ns: int | None = None
    regular: int | None = None
    device_median_ns: int | None = None
    anchor: str | None = None
    noted: int | None = None
    phases: tuple[Phase, ...] | None = None  # one after the other; one phase has none


class StepAccountObject(Struct, frozen=True):
    """Where an un-profiled step of a run goes; leaves and groups each sum to ``wall_ns``."""

    wall_ns: int
    steps: int | None
    leaves: Mapping[str, int]
    groups: Mapping[str, int]
    refined_by: int  # steps of windows that part "step"
    on_device: bool
    hidden_ns: int
    backlog_ns: int | None
    excess_ns: int
    host_scale: float | None
    unlike: UnlikeSteps | None = None  # steps of a kind that no window holds
    weighed: bool = False  # steps of windows count as often as the kinds that they stand for


def recorded_keys(recorded: RecordedRun) -> dict[str, Any]:
    """Return the keys of a recorded run that its parts do not have by the same name."""
    step_account = recorded.account
    return {
        "step_account": step_account
        and fill(StepAccountObject, step_account.account, step_account),
        "hot_lines": recorded.lines,
        "unseen": recorded.unobserved,
        "others": recorded.contention,
        "axis_error_ns": recorded.clock_error_ns,
    }


def recorded_step(recorded: RecordedRun, windows: Steps | None) -> StepObject | None:
    """Return the step times of a run; ``windows`` are those of its windows."""
    steps = recorded.steps
    if steps is None:
        return None
    profiled = windows.count if windows else 0
    return fill(StepObject, steps, profiled=profiled, phases=steps.phases or None)
