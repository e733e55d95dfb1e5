"""Where a step would go after a change: groups that sum to the predicted step exactly."""

from collections.abc import Sequence
from functools import cache

import pytest
from msgspec.structs import replace

from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.example_facts import gpu, worker_loader
from gapless.model.account import Account
from gapless.model.change import Change, Drop, HostChange, LoaderChange, Omit, Prediction
from gapless.model.edit import Applicability, Outcome, Proposal
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.leaf import PRINTED
from gapless.pricing.after import predict_outcome
from gapless.pricing.ceilings import Ceilings
from gapless.pricing.diagnose import diagnose
from gapless.pricing.price import Prices, price_changes
from gapless.pricing.propose import propose_fixes
from gapless.pricing.simulators.simulator import RunSimulator, WindowSimulator
from gapless.report.sections.remedies import then_line
from gapless.store.run.recordings import load
from gapless.study import Options
from gapless.study.build_run import account_run, prices_of_run
from tests.study.stand_in import StandIn
from tests.traces import recorded_run

LEAVES = {"busy.math": 50, "idle.data.decode": 30, "idle.io_main.checkpoint": 20}


class HalfStepSimulator(StandIn, frozen=True):
    """Gives half the step, whatever is changed, and an account of so many ns by group."""

    groups: dict[str, int]

    def play(self, changes: Sequence[Change]) -> Prediction:
        del changes  # all give the same
        return Prediction(Estimate(2.0, 2.0, 2.0), "host")

    def account(self, changes: Sequence[Change]) -> Account:
        del changes  # all give the same
        return Account(sum(self.groups.values()), 2, {}, self.groups, {}, ())


@cache
def story() -> Prices:
    return prices_of_run(account_run(load(recorded_run()), Options(), lambda _: None), cached=True)


def groups_after(
    evidence: Evidence, *changes: Change, simulator: HalfStepSimulator | None = None
) -> dict[str, int]:
    """Return what is left of each group, in ms."""
    prices = Prices(evidence, simulator or RunSimulator(refusal="nothing is played"), Ceilings())
    predicted = price_changes(prices, changes) if simulator else half_step()
    outcome = predict_outcome(prices, changes, predicted)
    assert outcome is not None
    assert sum(outcome.groups.values()) == outcome.step_ns
    return {name: round(ns / 1e6) for name, ns in outcome.groups.items() if round(ns / 1e6)}


def half_step() -> Prediction:
    return Prediction(Estimate(1.9, 2.0, 2.1), "feed")


def test_what_is_left_of_waits_for_data_is_what_the_others_leave_of_the_step() -> None:
    evidence = evidence_of(gpu(worker_loader()), {"busy.math": 40, "idle.data.decode": 60})
    assert groups_after(evidence, LoaderChange(0, num_workers=4)) == {"compute": 40, "data": 10}


def test_a_step_that_is_shorter_than_all_but_its_waits_has_no_waits() -> None:
    evidence = evidence_of(gpu(worker_loader()), {"busy.math": 60, "idle.data.decode": 40})
    assert groups_after(evidence, LoaderChange(0, num_workers=4)) == {"compute": 50}


def test_what_lies_outside_of_windows_goes_by_itself() -> None:
    evidence = evidence_of(gpu(), LEAVES)
    drop = Drop(("idle.io_main.checkpoint",), keep=0.5)
    groups_ms = groups_after(evidence, drop, simulator=HalfStepSimulator({"compute": 1}))
    assert groups_ms == {"compute": 50, "data": 30, "io": 10}


def test_what_windows_show_has_the_shares_that_were_played() -> None:
    evidence = evidence_of(gpu(), {"busy.math": 40, "idle.host.python": 60})
    change = HostChange(("idle.host.",), Estimate(0.1, 0.1, 0.1))
    assert groups_after(
        evidence, change, simulator=HalfStepSimulator({"compute": 400, "host": 100})
    ) == {
        "compute": 40,
        "host": 10,
    }


def test_what_is_not_predicted_or_not_played_has_no_account() -> None:
    evidence = evidence_of(gpu(), LEAVES)
    prices = Prices(evidence, RunSimulator(refusal="nothing is played"), Ceilings())
    changes = (Omit(("aten::item",)),)
    assert predict_outcome(prices, changes, half_step()) is None
    assert predict_outcome(prices, changes, Prediction(None, "host", refused="why")) is None


def test_the_account_of_a_played_window_ends_with_its_steps() -> None:
    simulator = story().simulator
    assert isinstance(simulator, RunSimulator)
    windows = simulator.windows
    assert isinstance(windows, WindowSimulator)
    unchanged = windows.account((HostChange(("idle.host.",), Estimate(1.0, 1.0, 1.0)),))
    reduced = windows.account((HostChange(("idle.host.",), Estimate(0.2, 0.2, 0.2)),))
    assert unchanged is not None
    assert reduced is not None
    assert sum(reduced.groups.values()) == reduced.wall_ns < unchanged.wall_ns
    assert reduced.groups["host"] < 0.5 * unchanged.groups["host"]
    longest = max(windows.scenes, key=lambda scene: len(scene.graph.counted_steps))
    steps = longest.unchanged_steps(longest.alpha.mid)
    assert unchanged.wall_ns == pytest.approx(float(steps.sum()), rel=1e-6)
    assert windows.account((LoaderChange(0),)) is None


def test_the_first_proposal_of_a_run_says_where_a_step_would_go() -> None:
    proposal = propose_fixes(story(), diagnose(story()))[0]
    step = story().evidence.step_ns
    assert proposal.outcome is not None
    assert proposal.speedup is not None
    assert step is not None
    assert proposal.outcome.step_ns == round(step / proposal.speedup.mid)
    assert sum(proposal.outcome.groups.values()) == proposal.outcome.step_ns
    assert set(proposal.outcome.groups) <= set(PRINTED)


def test_the_report_names_what_takes_most_of_the_step_then() -> None:
    outcome = Outcome(1000, {"data": 20, "compute": 880, "copy": 95, "host": 5})
    proposal = Proposal("f", "f", (), Applicability.IDENTICAL, outcome=outcome)
    study = replace(evidence_of(gpu(), LEAVES).study, proposals=(proposal,))
    line = "after 1 a step would go to compute 88 %, copying 10 %, waiting for data 2 %"
    assert then_line(study) == line
    assert then_line(replace(study, proposals=())) == ""
