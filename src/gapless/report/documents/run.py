"""What the JSON of a study has of a recorded run alone: its steps, its account, its parts."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from gapless.model.footprint import Footprint
from gapless.model.rhythm import Phase, UnlikeSteps
from gapless.model.run import RecordedRun, StepAccount
from gapless.model.study import Steps


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


def recorded_keys(recorded: RecordedRun | None) -> dict[str, Any]:
    """Return the keys that only a recorded run has."""
    if recorded is None:
        return {}
    step_account = recorded.account
    return {
        "timeline": recorded.timeline,
        "step_account": None if step_account is None else _step_account(step_account),
        "loaders": recorded.loaders,
        "machine": recorded.machine,
        "energy": recorded.energy,
        "cost": recorded.cost,
        "hot_lines": recorded.lines,
        "host_code": recorded.host_code,
        "unseen": recorded.unobserved,
        "others": recorded.contention,
        "optimizers": recorded.optimizers,
        "adopted": recorded.adopted,
        "axis_error_ns": recorded.clock_error_ns,
        "devices_seen": recorded.devices_seen,
        **_footprint_keys(recorded.footprint),
    }


def _footprint_keys(footprint: Footprint | None) -> dict[str, Any]:
    return {} if footprint is None else dict(asdict(footprint))


def _step_account(step_account: StepAccount) -> StepAccountObject:
    other_fields = {
        name: value for name, value in asdict(step_account).items() if name != "account"
    }
    account = step_account.account
    return StepAccountObject(
        account.wall_ns, account.steps, account.leaves, account.groups, **other_fields
    )


def recorded_step(recorded: RecordedRun, windows: Steps | None) -> StepObject | None:
    """Return the step times of a run; ``windows`` are those of its windows."""
    steps = recorded.steps
    if steps is None:
        return None
    return StepObject(
        count=steps.count,
        median_ns=steps.median_ns,
        p10_ns=steps.p10_ns,
        p90_ns=steps.p90_ns,
        profiled=windows.count if windows else 0,
        samples_per_s=steps.samples_per_s,
        noise=steps.noise,
        rule=steps.rule,
        mean_ns=steps.mean_ns,
        regular=steps.regular,
        device_median_ns=steps.device_median_ns,
        anchor=steps.anchor,
        noted=steps.noted,
        phases=steps.phases or None,
    )
