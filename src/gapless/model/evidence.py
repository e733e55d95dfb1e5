"""What a rule looks at: the study so far and the facts, with the sums that all rules ask for."""

from dataclasses import dataclass

from gapless.model.account import Account
from gapless.model.facts import Facts, Loader
from gapless.model.machine import Constants
from gapless.model.run import LoaderUse
from gapless.model.study import Study


class NotObservedError(Exception):
    """What a rule asks for was not observed: the engine turns it into an abstention."""

    def __init__(self, missing: str, reason: str) -> None:
        """Take what is missing ("windows", "stages"), and why."""
        self.missing, self.reason = missing, reason
        super().__init__(f"{missing}: {reason}")


@dataclass(frozen=True)
class Evidence:
    """A study that has an account, and what was true of the run; ``None``: nothing is known."""

    study: Study
    facts: Facts | None
    constants: Constants | None = None  # of the machine that it ran on; None: not known

    @property
    def is_trace_only(self) -> bool:
        """Return whether there is a trace alone: what is known of its run follows from that."""
        return self.facts is None or self.facts.inferred

    @property
    def on_device(self) -> bool:
        """Return whether the account's rows are those of a device."""
        recorded = self.study.recorded
        if recorded is not None:
            return recorded.account is not None and recorded.account.on_device
        return any(row_account.row.device is not None for row_account in self.study.account.rows)

    @property
    def has_device(self) -> bool:
        """Return whether a device was used, whether a window shows it or not."""
        has_recorded_device = self.facts is not None and self.facts.machine.device is not None
        return self.on_device or has_recorded_device

    @property
    def account(self) -> Account:
        """Return the joint account of a recorded run, else that of the windows."""
        recorded = self.study.recorded
        joint = recorded.account if recorded is not None else None
        return self.study.account if joint is None else joint.account

    @property
    def step_ns(self) -> float | None:
        """Return the mean step: un-profiled where it was recorded, else of the windows."""
        recorded = self.study.recorded
        if recorded is not None and recorded.steps is not None:
            return float(recorded.steps.mean_ns)
        account = self.study.account
        return account.wall_ns / account.steps if account.steps else None

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
        recorded = self.study.recorded
        uses = recorded.loaders if recorded is not None else ()
        return next((loader_use for loader_use in uses if loader_use.id == loader.id), None)
