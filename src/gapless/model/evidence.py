"""What a rule looks at: the study so far and the facts, with the sums that all rules ask for."""

from msgspec import Struct

from gapless.model.account import Account
from gapless.model.facts import Facts, Loader
from gapless.model.footprint import Footprint
from gapless.model.host_code import CallLine, FetchWait, HostCode, HotLine
from gapless.model.machine import Constants
from gapless.model.run import (
    UNRECORDED,
    CpuContention,
    DeviceState,
    LoaderUse,
    PageFaults,
    RecordedRun,
    RunSteps,
    StepAccount,
)
from gapless.model.study import Study


class NotObservedError(Exception):
    """What a rule asks for was not observed: the engine turns it into an abstention."""

    def __init__(self, missing: str, reason: str) -> None:
        """Take what is missing ("windows", "stages"), and why."""
        self.missing, self.reason = missing, reason
        super().__init__(f"{missing}: {reason}")


class Evidence(Struct, frozen=True):
    """A study that has an account, and what was true of the run, recorded or inferred."""

    study: Study
    facts: Facts
    constants: Constants | None = None  # of the machine that it ran on; None: not known

    @property
    def is_trace_only(self) -> bool:
        """Return whether there is a trace alone: what is known of its run follows from that."""
        return self.study.recorded is None

    @property
    def recorded(self) -> RecordedRun:
        """Return what was recorded of the run: of a mere trace, nothing (``UNRECORDED``)."""
        return self.study.recorded or UNRECORDED

    @property
    def on_device(self) -> bool:
        """Return whether the account's rows are those of a device."""
        if not self.is_trace_only:
            return self.step_account is not None and self.step_account.on_device
        return any(row_account.row.device is not None for row_account in self.study.account.rows)

    @property
    def has_device(self) -> bool:
        """Return whether a device was used, whether a window shows it or not."""
        return self.on_device or self.facts.machine.device is not None

    @property
    def account(self) -> Account:
        """Return the joint account of a recorded run, else that of the windows."""
        joint = self.step_account
        return self.study.account if joint is None else joint.account

    @property
    def step_ns(self) -> float | None:
        """Return the mean step: un-profiled where it was recorded, else of the windows."""
        return mean_step_ns(self.study)

    @property
    def run(self) -> RecordedRun:
        """Return what was recorded of the run. Raises ``NotObservedError`` for a mere trace."""
        if self.is_trace_only:
            raise NotObservedError("run", "only a recorded run shows it")
        return self.recorded

    def per_step(self, *prefixes: str) -> float:
        """Sum what a step holds of the leaves that begin with one of some prefixes, in ns.

        Of the joint account of a recorded run, else of the windows; 0.0 where nothing has steps.
        """
        account = self.account
        total_ns = sum(ns for leaf, ns in account.leaves.items() if leaf.startswith(prefixes))
        return total_ns / account.steps if account.steps else 0.0

    def share(self, *prefixes: str) -> float:
        """Return the same as a share of the step."""
        step = self.step_ns
        return self.per_step(*prefixes) / step if step else 0.0

    def loader_use(self, loader: Loader) -> LoaderUse | None:
        """Return how a loader was used; ``None`` where that was not recorded."""
        return next((use for use in self.loader_uses if use.id == loader.id), None)

    # What only a recorded run shows: of a mere trace nothing.

    @property
    def run_steps(self) -> RunSteps | None:
        """Return the un-profiled steps; ``None`` if none was seen."""
        return self.recorded.steps

    @property
    def step_account(self) -> StepAccount | None:
        """Return the joint account of un-profiled steps and windows."""
        return self.recorded.account

    @property
    def footprint(self) -> Footprint | None:
        """Return the counted calls: waits for the device, allocations, files, loggers."""
        return self.recorded.footprint

    @property
    def contention(self) -> CpuContention | None:
        """Return what other processes did on the processors."""
        return self.recorded.contention

    @property
    def page_faults(self) -> PageFaults | None:
        """Return what memory the kernel hands a training thread anew in each step."""
        return self.recorded.page_faults

    @property
    def loader_uses(self) -> tuple[LoaderUse, ...]:
        """Return how each loader was waited for."""
        return self.recorded.loaders

    @property
    def device_states(self) -> tuple[DeviceState, ...]:
        """Return how the devices were seen from outside: clocks, memory, other processes."""
        return self.recorded.devices_seen

    @property
    def hot_lines(self) -> tuple[HotLine, ...]:
        """Return the lines at which threads were sampled."""
        return self.recorded.lines

    @property
    def loading_lines(self) -> tuple[HotLine, ...]:
        """Return the lines at which training threads were sampled in loaders without workers."""
        return self.recorded.loading_lines

    @property
    def call_lines(self) -> tuple[CallLine, ...]:
        """Return the user's lines and what they call, those with most time first."""
        return self.recorded.call_lines

    @property
    def host_code(self) -> tuple[HostCode, ...]:
        """Return where training threads were sampled, by kind of code."""
        return self.recorded.host_code

    @property
    def fetch_waits(self) -> tuple[FetchWait, ...]:
        """Return what making batches was sampled to wait for, most first."""
        return self.recorded.fetch_waits


def mean_step_ns(study: Study) -> float | None:
    """Return the mean step: un-profiled where it was recorded, else of the windows."""
    recorded = study.recorded
    if recorded is not None and recorded.steps is not None:
        return float(recorded.steps.mean_ns)
    return study.account.wall_ns / study.account.steps if study.account.steps else None
