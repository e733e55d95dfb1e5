"""Delay injection: which delays, what they are predicted to cost, how what they cost compares."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from gapless.model.change import Change, Delay, LoaderChange, Prediction
from gapless.model.edit import Location, Wrap
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import ReplayFidelity
from gapless.model.trial import Agreement, Check, DelayCost, Trial, TrialVerdict
from gapless.pricing.ceilings import Ceilings
from gapless.pricing.price import Prices
from gapless.verify.checking import LOADER, THREAD, agreement, plan_checks
from gapless.verify.plan import conduct
from gapless.verify.specs import ArmSpec, Candidate, TrialSettings
from tests.replay.test_feeding import make_loader
from tests.study.test_prices import CHECKPOINTS
from tests.verify.arms import Machine

MS = 1_000_000
STEP_MS = 100.0


@dataclass(frozen=True)
class AddingSimulator:
    """Predicts that a share of each delay is added to a step."""

    share: float = 1.0
    refusal: str | None = None
    fidelity: ReplayFidelity | None = None

    def account(self, changes: Sequence[Change]) -> None:
        """Return none: no window is played."""

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


def candidates(
    evidence: Evidence, simulator: AddingSimulator | None = None
) -> tuple[Candidate, ...]:
    return plan_checks(Prices(evidence, simulator or AddingSimulator(), Ceilings())).candidates


def check_of(candidate: Candidate) -> Check:
    assert candidate.check is not None
    return candidate.check


def test_a_delay_is_a_fifth_of_a_step_as_workers_share_it() -> None:
    assert make_evidence(4).step_ns == STEP_MS * MS
    fetch, step = candidates(make_evidence(4, batches=20))
    assert (check_of(fetch).place, check_of(step).place) == (LOADER, THREAD)
    # Two batches a step, four workers.
    assert (check_of(fetch).delay_ns, check_of(fetch).most_ns) == (40 * MS, 20 * MS)
    assert (check_of(step).delay_ns, check_of(step).most_ns) == (20 * MS, 20 * MS)
    assert fetch.edits == (
        Wrap("torch.utils.data.DataLoader", "delay", {"place": "fetch", "ns": 40 * MS}),
    )
    assert check_of(step).predicted.mid == pytest.approx(20 * MS, rel=1e-6)
    assert check_of(step).predicted.low < 20 * MS < check_of(step).predicted.high


def test_of_several_loaders_that_train_none_is_delayed_and_another_that_does_not_is_left() -> None:
    assert [check_of(candidate).place for candidate in candidates(make_evidence(0, 0))] == [THREAD]
    evidence = make_evidence(0, 0)
    assert evidence.facts is not None
    first_loader, other_loader = evidence.facts.loaders
    evidence = replace(
        evidence,
        facts=replace(evidence.facts, loaders=(first_loader, replace(other_loader, trains=False))),
    )
    (edit,) = candidates(evidence)[0].edits
    assert isinstance(edit, Wrap)
    assert edit.where == Location("train.py", 0)


def test_where_nothing_is_predicted_there_is_nothing_to_check() -> None:
    plan = plan_checks(Prices(make_evidence(0), AddingSimulator(refusal="no window"), Ceilings()))
    assert plan.candidates == ()
    assert plan.notes[1] == f"not checked: {THREAD}: nothing is predicted: no window"


def test_not_even_a_delay_that_is_hidden_is_predicted_exactly() -> None:
    prediction = check_of(candidates(make_evidence(), AddingSimulator(share=0.0))[0]).predicted
    assert (prediction.low, prediction.mid, prediction.high) == pytest.approx((-3 * MS, 0, 3 * MS))


def test_a_check_that_failed_may_be_made_again() -> None:
    ceilings = Ceilings(refuted={"host": "a check failed", "feed": "a check failed"})
    assert len(plan_checks(Prices(make_evidence(0), AddingSimulator(), ceilings)).candidates) == 2


# ── Arms ────────────────────────────────────────────────────────────────────────────────────────


def try_candidate(machine: Machine, candidate: Candidate) -> Trial:
    settings = TrialSettings("1", ("python",), clock=machine.clock, windows=False)
    return conduct((candidate,), settings, machine.run, lambda _: None)


def find_check(trial: Trial) -> Check:
    (side,) = trial.sides
    assert side.check is not None
    return side.check


def jitter(spec: ArmSpec) -> float:
    return 1 + (spec.index * 7 % 5 - 2) * 0.1


@pytest.mark.parametrize(
    ("ms", "expected"),
    [(120, Agreement.WITHIN), (100, Agreement.FAR), (130, Agreement.FAR)],
)
def test_what_a_delay_cost_is_compared_with_what_it_was_to_cost(
    ms: float, expected: Agreement
) -> None:
    (step,) = candidates(make_evidence())
    check = find_check(try_candidate(Machine({"A": STEP_MS, "B": ms}), step))
    assert check.agreement is expected
    assert check.measured is not None
    assert check.measured.mid == pytest.approx((ms - STEP_MS) * MS, abs=1000)


def test_what_is_not_wide_enough_decided_goes_on() -> None:
    (step,) = candidates(make_evidence())
    vague_machine = Machine(
        {"A": STEP_MS, "B": 120}, slowdown=lambda spec: 1 + spec.index % 2 * 0.05
    )
    assert len(try_candidate(vague_machine, step).order) > len(
        try_candidate(Machine({"A": 100, "B": 120}), step).order
    )


@pytest.mark.parametrize(
    "machine",
    [
        Machine({"A": STEP_MS, "B": 100}, slowdown=jitter),
        Machine({"A": STEP_MS, "B": 160}, foreign=lambda _: 0.5),
    ],
    ids=["noise", "others on the processors"],
)
def test_a_disturbed_machine_refutes_nothing(machine: Machine) -> None:
    (step,) = candidates(make_evidence())
    assert find_check(try_candidate(machine, step)).agreement is Agreement.UNDECIDED


def test_a_delay_that_took_no_effect_checks_nothing() -> None:
    (step,) = candidates(make_evidence())
    trial = try_candidate(Machine({"A": STEP_MS, "B": 100}, edit_counts=lambda _: {0: 0}), step)
    assert trial.sides[0].verdict is TrialVerdict.REFUSED
    assert find_check(trial).measured is None


def test_what_overlaps_or_is_not_proven_to_differ_is_near() -> None:
    check = Check(THREAD, 20, 20, DelayCost(15, 20, 25), "host")
    assert agreement(check, DelayCost(-1, 20, 21), 0) is Agreement.UNDECIDED
    assert agreement(check, DelayCost(1, 20, 21), 0) is Agreement.WITHIN
    assert agreement(check, DelayCost(24, 28, 32), 0) is Agreement.NEAR
    assert agreement(check, DelayCost(27, 28, 29), 3) is Agreement.NEAR
    assert agreement(check, DelayCost(27, 28, 29), 1) is Agreement.FAR
    assert agreement(check, DelayCost(18, 19, 20), 20) is Agreement.UNDECIDED
