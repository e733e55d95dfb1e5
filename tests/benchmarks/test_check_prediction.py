"""Delay injection: which delays, what they are predicted to cost, how what they cost compares."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from benchmarks.check_prediction import (
    LOADER,
    THREAD,
    Agreement,
    Check,
    CheckPlan,
    DelayCost,
    agreement,
    check_line,
    complete_check,
    plan_checks,
)
from gapless.model.change import Change, Delay, LoaderChange, Prediction
from gapless.model.edit import Location, Wrap
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.trial import Trial, TrialVerdict
from gapless.pricing.ceilings import Ceilings
from gapless.pricing.price import Prices
from gapless.verify.plan import conduct
from gapless.verify.specs import ArmSpec, TrialSettings
from tests.replay.test_feeding import make_loader
from tests.study.stand_in import StandIn
from tests.study.test_prices import CHECKPOINTS
from tests.verify.arms import Machine

MS = 1_000_000
STEP_MS = 100.0


class AddingSimulator(StandIn, frozen=True):
    """Predicts that a share of each delay is added to a step."""

    share: float = 1.0
    refusal: str | None = None

    def play(self, changes: Sequence[Change]) -> Prediction:
        (change,) = changes
        family = "feed" if isinstance(change, LoaderChange) else "host"
        if self.refusal is not None:
            return Prediction(None, family, refused=self.refusal)
        ns = change.delay_ns if isinstance(change, LoaderChange) else None
        ns = change.ns if isinstance(change, Delay) else ns
        assert ns is not None
        speedup = 1 / (1 + self.share * ns / (STEP_MS * MS))
        half_width = 0.01 * self.share
        return Prediction(
            Estimate(speedup * (1 - half_width), speedup, speedup * (1 + half_width)), family
        )


def make_evidence(*workers: int, batches: int = 10) -> Evidence:
    """Return a run of steps of 100 ms whose loaders have so many workers."""
    facts = CHECKPOINTS.facts
    assert facts is not None
    loaders = tuple(
        replace(
            make_loader(num_workers=n_workers, batches=batches),
            id=number,
            location=Location("train.py", number),
        )
        for number, n_workers in enumerate(workers)
    )
    world = replace(facts.world, steps=10)
    return replace(CHECKPOINTS, facts=replace(facts, loaders=loaders, world=world))


def make_plan(evidence: Evidence, simulator: AddingSimulator | None = None) -> CheckPlan:
    return plan_checks(Prices(evidence, simulator or AddingSimulator(), Ceilings()))


def test_a_delay_is_a_fifth_of_a_step_as_workers_share_it() -> None:
    assert make_evidence(4).step_ns == STEP_MS * MS
    plan = make_plan(make_evidence(4, batches=20))
    fetch, step = plan.checks
    assert (fetch.place, step.place) == (LOADER, THREAD)
    # Two batches a step, four workers.
    assert (fetch.delay_ns, fetch.most_ns) == (40 * MS, 20 * MS)
    assert (step.delay_ns, step.most_ns) == (20 * MS, 20 * MS)
    assert plan.candidates[0].edits == (
        Wrap("torch.utils.data.DataLoader", "delay", {"place": "fetch", "ns": 40 * MS}),
    )
    assert step.predicted.mid == pytest.approx(20 * MS, rel=1e-6)
    assert step.predicted.low < 20 * MS < step.predicted.high


def test_of_several_loaders_that_train_none_is_delayed_and_another_that_does_not_is_left() -> None:
    assert [check.place for check in make_plan(make_evidence(0, 0)).checks] == [THREAD]
    evidence = make_evidence(0, 0)
    assert evidence.facts is not None
    first_loader, other_loader = evidence.facts.loaders
    evidence = replace(
        evidence,
        facts=replace(evidence.facts, loaders=(first_loader, replace(other_loader, trains=False))),
    )
    (edit,) = make_plan(evidence).candidates[0].edits
    assert isinstance(edit, Wrap)
    assert edit.where == Location("train.py", 0)


def test_where_nothing_is_predicted_there_is_nothing_to_check() -> None:
    plan = plan_checks(Prices(make_evidence(0), AddingSimulator(refusal="no window"), Ceilings()))
    assert plan.candidates == ()
    assert plan.notes[1] == f"not checked: {THREAD}: nothing is predicted: no window"


def test_not_even_a_delay_that_is_hidden_is_predicted_exactly() -> None:
    prediction = make_plan(make_evidence(), AddingSimulator(share=0.0)).checks[0].predicted
    assert (prediction.low, prediction.mid, prediction.high) == pytest.approx((-3 * MS, 0, 3 * MS))


# ── Arms ────────────────────────────────────────────────────────────────────────────────────────


def try_step(machine: Machine) -> tuple[Trial, Check]:
    """Return a trial of a delay of 20 ms in each step, and its check."""
    plan = make_plan(make_evidence())
    settings = TrialSettings("1", ("python",), clock=machine.clock, windows=False)
    trial = conduct(plan.candidates, settings, machine.run, lambda _: None)
    return trial, complete_check(plan.checks[0], trial.sides[0], trial)


def jitter(spec: ArmSpec) -> float:
    return 1 + (spec.index * 7 % 5 - 2) * 0.1


@pytest.mark.parametrize(
    ("ms", "expected"),
    [(120, Agreement.WITHIN), (100, Agreement.FAR), (130, Agreement.FAR)],
)
def test_what_a_delay_cost_is_compared_with_what_it_was_to_cost(
    ms: float, expected: Agreement
) -> None:
    _, check = try_step(Machine({"A": STEP_MS, "B": ms}))
    assert check.agreement is expected
    assert check.measured is not None
    assert check.measured.mid == pytest.approx((ms - STEP_MS) * MS, abs=1000)


def test_what_is_not_wide_enough_decided_goes_on() -> None:
    vague_machine = Machine(
        {"A": STEP_MS, "B": 120}, slowdown=lambda spec: 1 + spec.index % 2 * 0.05
    )
    vague_trial, _ = try_step(vague_machine)
    plain_trial, _ = try_step(Machine({"A": 100, "B": 120}))
    assert len(vague_trial.order) > len(plain_trial.order)


@pytest.mark.parametrize(
    "machine",
    [
        Machine({"A": STEP_MS, "B": 100}, slowdown=jitter),
        Machine({"A": STEP_MS, "B": 160}, foreign=lambda _: 0.5),
    ],
    ids=["noise", "others on the processors"],
)
def test_a_disturbed_machine_refutes_nothing(machine: Machine) -> None:
    assert try_step(machine)[1].agreement is Agreement.UNDECIDED


def test_a_delay_that_took_no_effect_checks_nothing() -> None:
    trial, check = try_step(Machine({"A": STEP_MS, "B": 100}, edit_counts=lambda _: {0: 0}))
    assert trial.sides[0].verdict is TrialVerdict.REFUSED
    assert check.measured is None


def test_what_overlaps_or_is_not_proven_to_differ_is_near() -> None:
    check = Check(THREAD, 20, 20, DelayCost(15, 20, 25))
    assert agreement(check, DelayCost(-1, 20, 21), 0) is Agreement.UNDECIDED
    assert agreement(check, DelayCost(1, 20, 21), 0) is Agreement.WITHIN
    assert agreement(check, DelayCost(24, 28, 32), 0) is Agreement.NEAR
    assert agreement(check, DelayCost(27, 28, 29), 3) is Agreement.NEAR
    assert agreement(check, DelayCost(27, 28, 29), 1) is Agreement.FAR
    assert agreement(check, DelayCost(18, 19, 20), 20) is Agreement.UNDECIDED


def test_what_was_predicted_and_what_was_measured_stand_together() -> None:
    check = Check(LOADER, 3 * MS, 2 * MS, DelayCost(0.9e6, 1.2e6, 1.44e6))
    assert check_line(check).endswith("1.20 ms [0.90 … 1.44] a step; it was not measured")
    measured = replace(check, measured=DelayCost(1.1e6, 1.3e6, 1.5e6), agreement=Agreement.WITHIN)
    assert check_line(measured).endswith("a step, measured 1.30 ms [1.10 … 1.50]: within")
