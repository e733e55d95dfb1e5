"""Delay injection: which delays, what they are predicted to cost, how what they cost compares."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from gapless.model.change import Change, Delay, Feed, Predicted
from gapless.model.edit import Where, Wrap
from gapless.model.finding import Rehearsal
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.trial import Agreement, Check, Cost, Trial, Verdict
from gapless.study.ceilings import Ceilings
from gapless.study.price import Prices
from gapless.verify.checking import LOADER, THREAD, agreement, planned
from gapless.verify.plan import conduct
from gapless.verify.wanted import Candidate, Order, TrialSettings
from tests.replay.test_feeding import loader
from tests.study.test_prices import CHECKPOINTS
from tests.verify.arms import Machine

MS = 1_000_000
STEP_MS = 100.0


@dataclass(frozen=True)
class Adding:
    """Predicts that a share of each delay is added to a step."""

    share: float = 1.0
    refused: str | None = None
    rehearsal: Rehearsal | None = None

    def account(self, changes: Sequence[Change]) -> None:
        """Give none: no window is played."""

    def play(self, changes: Sequence[Change]) -> Predicted:
        (change,) = changes
        family = "feed" if isinstance(change, Feed) else "host"
        if self.refused is not None:
            return Predicted(None, family, refused=self.refused)
        ns = change.delay_ns if isinstance(change, Feed) else None
        ns = change.ns if isinstance(change, Delay) else ns
        assert ns is not None
        speedup = 1 / (1 + self.share * ns / (STEP_MS * MS))
        off = 0.01 * self.share
        return Predicted(Interval(speedup * (1 - off), speedup, speedup * (1 + off)), family)


def seen(*workers: int, batches: int = 10) -> Seen:
    """Give a run of steps of 100 ms whose loaders have so many workers."""
    known = CHECKPOINTS.facts
    assert known is not None
    loaders = tuple(
        replace(loader(num_workers=many, batches=batches), id=at, where=Where("train.py", at))
        for at, many in enumerate(workers)
    )
    world = replace(known.world, steps=10)
    return replace(CHECKPOINTS, facts=replace(known, loaders=loaders, world=world))


def candidates(of: Seen, player: Adding | None = None) -> tuple[Candidate, ...]:
    return planned(Prices(of, player or Adding(), Ceilings())).candidates


def check_of(one: Candidate) -> Check:
    assert one.check is not None
    return one.check


def test_a_delay_is_a_fifth_of_a_step_as_workers_share_it() -> None:
    assert seen(4).step_ns == STEP_MS * MS
    fetch, step = candidates(seen(4, batches=20))
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
    assert [check_of(one).place for one in candidates(seen(0, 0))] == [THREAD]
    of = seen(0, 0)
    assert of.facts is not None
    first, other = of.facts.loaders
    of = replace(of, facts=replace(of.facts, loaders=(first, replace(other, trains=False))))
    (edit,) = candidates(of)[0].edits
    assert isinstance(edit, Wrap)
    assert edit.where == Where("train.py", 0)


def test_where_nothing_is_predicted_there_is_nothing_to_check() -> None:
    found = planned(Prices(seen(0), Adding(refused="no window"), Ceilings()))
    assert found.candidates == ()
    assert found.notes[1] == f"not checked: {THREAD}: nothing is predicted: no window"


def test_not_even_a_delay_that_is_hidden_is_predicted_exactly() -> None:
    predicted = check_of(candidates(seen(), Adding(share=0.0))[0]).predicted
    assert (predicted.low, predicted.mid, predicted.high) == pytest.approx((-3 * MS, 0, 3 * MS))


def test_a_check_that_failed_may_be_made_again() -> None:
    failed = Ceilings(refuted={"host": "a check failed", "feed": "a check failed"})
    assert len(planned(Prices(seen(0), Adding(), failed)).candidates) == 2


# ── Arms ────────────────────────────────────────────────────────────────────────────────────────


def tried(machine: Machine, one: Candidate) -> Trial:
    settings = TrialSettings("1", ("python",), clock=machine.clock, windows=False)
    return conduct((one,), settings, machine.run, lambda _: None)


def found(trial: Trial) -> Check:
    (side,) = trial.sides
    assert side.check is not None
    return side.check


def jitter(order: Order) -> float:
    return 1 + (order.order * 7 % 5 - 2) * 0.1


@pytest.mark.parametrize(
    ("ms", "expected"),
    [(120, Agreement.WITHIN), (100, Agreement.BESIDE), (130, Agreement.BESIDE)],
)
def test_what_a_delay_cost_is_compared_with_what_it_was_to_cost(
    ms: float, expected: Agreement
) -> None:
    (step,) = candidates(seen())
    made = found(tried(Machine({"A": STEP_MS, "B": ms}), step))
    assert made.agreement is expected
    assert made.measured is not None
    assert made.measured.mid == pytest.approx((ms - STEP_MS) * MS, abs=1000)


def test_what_is_not_wide_enough_decided_goes_on() -> None:
    (step,) = candidates(seen())
    vague = Machine({"A": STEP_MS, "B": 120}, slow=lambda one: 1 + one.order % 2 * 0.05)
    assert len(tried(vague, step).order) > len(tried(Machine({"A": 100, "B": 120}), step).order)


@pytest.mark.parametrize(
    "machine",
    [
        Machine({"A": STEP_MS, "B": 100}, slow=jitter),
        Machine({"A": STEP_MS, "B": 160}, foreign=lambda _: 0.5),
    ],
    ids=["noise", "others on the processors"],
)
def test_a_disturbed_machine_refutes_nothing(machine: Machine) -> None:
    (step,) = candidates(seen())
    assert found(tried(machine, step)).agreement is Agreement.UNDECIDED


def test_a_delay_that_took_no_effect_checks_nothing() -> None:
    (step,) = candidates(seen())
    trial = tried(Machine({"A": STEP_MS, "B": 100}, met=lambda _: {0: 0}), step)
    assert trial.sides[0].verdict is Verdict.REFUSED
    assert found(trial).measured is None


def test_what_overlaps_or_is_not_proven_to_differ_is_near() -> None:
    check = Check(THREAD, 20, 20, Cost(15, 20, 25), "host")
    assert agreement(check, Cost(-1, 20, 21), 0) is Agreement.UNDECIDED
    assert agreement(check, Cost(1, 20, 21), 0) is Agreement.WITHIN
    assert agreement(check, Cost(24, 28, 32), 0) is Agreement.NEAR
    assert agreement(check, Cost(27, 28, 29), 3) is Agreement.NEAR
    assert agreement(check, Cost(27, 28, 29), 1) is Agreement.BESIDE
    assert agreement(check, Cost(18, 19, 20), 20) is Agreement.UNDECIDED
