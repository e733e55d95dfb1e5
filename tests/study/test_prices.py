"""Prices: run rows outside windows, one thread without a device, replay for all else; ceilings."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from gapless.catalogue.examples import cpu, ddp, fed, gpu, world
from gapless.catalogue.rank_examples import together
from gapless.catalogue.seen_examples import seen, stepped
from gapless.catalogue.seen_parts import made_by, operator, used
from gapless.model.change import (
    Change,
    Copied,
    Drop,
    Feed,
    Hosted,
    Merge,
    Omit,
    Predicted,
    Scale,
)
from gapless.model.edit import Applicability
from gapless.model.finding import Loss, Rehearsal
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.trial import Agreement, Check, Cost, Side, Trial, Verdict
from gapless.study.ceilings import Ceilings, ceilings_of
from gapless.study.playing import Alone
from gapless.study.price import Prices, finding, price, worth_naming
from gapless.study.replaying import Silent

HALF = Interval(0.5, 0.5, 0.5)


@dataclass(frozen=True)
class Table:
    """Gives the same for whatever it plays, and notes what that was."""

    speedup: Interval
    family: str = "sync"
    played: list[tuple[Change, ...]] = field(default_factory=list[tuple[Change, ...]])
    rehearsal: Rehearsal | None = None

    def play(self, changes: Sequence[Change]) -> Predicted:
        self.played.append(tuple(changes))
        return Predicted(self.speedup, self.family)

    def account(self, changes: Sequence[Change]) -> None:
        del changes  # it plays no traces


def priced(of: Seen, *changes: Change, table: Table | None = None) -> Predicted:
    player = table or Silent("nothing is replayed in this test")
    return price(Prices(of, player, Ceilings()), changes)


def alone(of: Seen, *changes: Change) -> Predicted:
    return price(Prices(of, Alone(of, None), Ceilings()), changes)


def bounds(found: Predicted) -> tuple[float, float, float]:
    assert found.speedup is not None, found.refused
    return found.speedup.low, found.speedup.mid, found.speedup.high


CHECKPOINTS = seen(gpu(), {"busy.math": 70, "idle.io_main.checkpoint": 20, "idle.gc": 10})


def test_what_lies_outside_windows_is_taken_off_the_step() -> None:
    found = priced(CHECKPOINTS, Drop(("idle.io_main.checkpoint",)))
    assert found.family == "tail"
    assert bounds(found)[1] == pytest.approx(100 / 80)
    assert bounds(found)[0] < 100 / 80 < bounds(found)[2]


def test_of_checkpoints_that_are_kept_their_time_stays() -> None:
    kept = priced(CHECKPOINTS, Drop(("idle.io_main.checkpoint",), keep=0.5))
    assert bounds(kept)[1] == pytest.approx(100 / 90)


def test_what_two_changes_name_goes_once() -> None:
    twice = (Drop(("idle.io_main.checkpoint",)), Drop(("idle.io_main",)))
    assert bounds(priced(CHECKPOINTS, *twice))[1] == pytest.approx(100 / 80)


def test_what_is_within_steps_is_replayed_of_the_step_without_what_lies_outside() -> None:
    table = Table(Interval(2.0, 2.0, 2.0))
    within = Drop(("idle.sync", "idle.gc"))
    waits = {"busy.math": 30, "idle.sync.return": 40, "idle.io_main.checkpoint": 20, "idle.gc": 10}
    found = priced(seen(gpu(), waits), within, table=table)
    assert table.played == [(Drop(("idle.sync",)),)]
    # 70 ms of a step of 100 lie within; they become 35, checkpoints stay, the collector goes.
    assert bounds(found)[1] == pytest.approx(100 / (35 + 20))


def test_a_foreign_trace_has_nothing_outside_its_windows() -> None:
    table = Table(Interval(1.1, 1.2, 1.3))
    foreign = seen(None, {"busy.math": 70, "idle.io_main.checkpoint": 30})
    drop = Drop(("idle.io_main.checkpoint",))
    assert bounds(priced(foreign, drop, table=table)) == (1.1, 1.2, 1.3)
    assert table.played == [(drop,)]


def test_what_a_device_leaves_undone_for_others_is_taken_off_the_step() -> None:
    table = Table(Interval(2.0, 2.0, 2.0))
    turns = seen(gpu(), {"busy.math": 60, "idle.device.wait": 20, "idle.gc": 20})
    low, mid, high = bounds(priced(turns, Drop(("idle.device.wait",)), table=table))
    assert (low, mid) == (pytest.approx(100 / 83), pytest.approx(100 / 80))
    assert high == pytest.approx(100 / 60)  # as much again within kernels
    assert table.played == []


def test_of_several_ranks_what_devices_leave_undone_goes_likewise() -> None:
    turns = {"busy.math": 60, "idle.device.wait": 40}
    two = together(gpu(ddp(), world(ranks=2)), turns, turns)
    assert bounds(priced(two, Drop(("idle.device.wait",))))[1] == pytest.approx(100 / 60)


def test_what_a_device_leaves_undone_stays_where_it_is_not_meant() -> None:
    table = Table(Interval(2.0, 2.0, 2.0))
    leaves = {"busy.math": 20, "idle.sync.return": 40, "idle.device.wait": 20, "idle.gc": 20}
    found = priced(seen(gpu(), leaves), Drop(("idle.gc", "idle.sync")), table=table)
    assert bounds(found)[1] == pytest.approx(100 / (80 / 2))


def test_what_cannot_be_replayed_has_no_price_and_says_why() -> None:
    found = priced(CHECKPOINTS, Omit(("aten::item",)))
    assert found.speedup is None
    assert found.refused == "nothing is replayed in this test"


def test_nothing_is_predicted_without_changes_or_without_steps() -> None:
    assert priced(CHECKPOINTS).speedup is None
    assert priced(seen(None, {}), Drop(("idle.gc",))).refused == "there are no steps"


# ── One thread ──────────────────────────────────────────────────────────────────────────────────

ALONE = seen(
    cpu(),
    {"busy.math": 60, "busy.elementwise": 20, "idle.host.python": 20},
    replace(operator("aten::item", calls=20, host_ms=10), host_self_ns=1),
    operator("aten::_local_scalar_dense", calls=20, host_ms=8),
)


def test_without_a_device_time_goes_off_the_thread() -> None:
    found = alone(ALONE, Drop(("idle.host.python",)))
    assert bounds(found)[1] == pytest.approx(100 / 80)
    halved = alone(ALONE, Scale(HALF, ("busy.math",)))
    assert (halved.family, bounds(halved)[1]) == ("kernel", pytest.approx(100 / 70))
    assert bounds(alone(ALONE, Hosted(("idle.host",), HALF)))[1] == pytest.approx(100 / 90)


def test_operators_that_lie_within_one_another_are_not_taken_off_twice() -> None:
    low, mid, high = bounds(alone(ALONE, Omit(("aten::item", "aten::_local_scalar_dense"))))
    assert low < mid == pytest.approx(100 / 90)
    assert high == pytest.approx(100 / 82)


def test_what_workers_are_waited_for_may_eat_what_the_thread_saves() -> None:
    waits = seen(
        cpu(fed()),
        {"busy.math": 60, "idle.data.decode": 40},
        used(fed(), {"decode": 40.0}, made_by(8, {"decode": 1.0})),
    )
    found = alone(waits, Scale(HALF, ("busy.math",)))
    assert bounds(found)[0] <= 1.0 < bounds(found)[1]
    assert found.notes == (
        "workers are waited for: what the thread saves may be waited for instead",
    )


@pytest.mark.parametrize(
    "change", [Merge(("Optimizer.step#*",), 3), Copied(pinned=True), Feed(0, wait=False)]
)
def test_of_one_thread_some_is_not_known(change: Change) -> None:
    assert alone(ALONE, change).speedup is None


# ── Worth ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("low", "worth"), [(1.021, True), (1.019, False)])
def test_worth_naming_is_what_surely_gains_two_percent(low: float, *, worth: bool) -> None:
    assert worth_naming(Predicted(Interval(low, 1.2, 1.3), "sync")) is worth


def test_what_has_no_price_is_not_worth_naming() -> None:
    assert not worth_naming(Predicted(None, "sync"))


def test_below_fifty_steps_all_is_provisional() -> None:
    few = stepped(ALONE, regular=49)
    assert Prices(few, Silent(""), Ceilings()).provisional
    assert not Prices(ALONE, Silent(""), Ceilings()).provisional


def test_a_finding_costs_what_the_middle_of_its_price_takes_off_a_step() -> None:
    loss = Loss("G901", "slow", "It is slow.", (Drop(("idle.sync",)),))
    table = Table(Interval(1.9, 2.0, 2.1))
    found = finding(Prices(CHECKPOINTS, table, Ceilings()), loss)
    assert found.cost_ns == pytest.approx(100e6 * (1 - 1 / bounds(found.predicted)[1]), rel=1e-6)


# ── Ceilings ────────────────────────────────────────────────────────────────────────────────────


def tried(*sides: tuple[tuple[str, ...], Interval]) -> Trial:
    made = tuple(
        Side(chr(66 + at), fixes, "", (), Applicability.TRIAL, Verdict.CONFIRMED, speedup, None)
        for at, (fixes, speedup) in enumerate(sides)
    )
    return Trial("01", ("python",), None, (), "AB", made, 0.01, None, None, "warm", 1.0)


def test_no_prediction_is_above_the_measured_ceiling_of_its_kind() -> None:
    known = ceilings_of(
        [
            tried((("cached-batch",), Interval(1.3, 1.4, 1.5))),
            tried(
                (("cached-batch-on-device",), Interval(1.5, 1.6, 1.7)),
                (("no-logging", "no-checkpoint"), Interval(1.0, 1.01, 1.02)),
            ),
        ]
    )
    much = Predicted(Interval(1.4, 1.8, 2.0), "feed")
    bounded = known.bound(much)
    assert bounds(bounded) == (1.4, 1.5, 1.5)
    assert bounded.notes == ("bounded by the ceiling that was measured: 1.50×",)
    assert bounds(known.bound(replace(much, family="copy"))) == (1.4, 1.7, 1.7)
    assert bounds(known.bound(replace(much, family="tail"))) == (1.02, 1.02, 1.02)
    assert known.bound(replace(much, family="sync")) == replace(much, family="sync")
    below = Predicted(Interval(1.1, 1.2, 1.3), "feed")
    assert known.bound(below) == below


def test_only_ablations_are_ceilings() -> None:
    side = replace(tried((("cached-batch",), HALF)).sides[0], applicability=Applicability.SAME)
    assert not ceilings_of([replace(tried(), sides=(side,))]).found


def checked(place: str, family: str, agreement: Agreement) -> Trial:
    check = Check(place, 10, 10, Cost(1, 2, 3), family, Cost(7, 8, 9), agreement)
    side = replace(tried((("delay",), HALF)).sides[0], check=check)
    return replace(tried(), sides=(side,))


def test_what_a_check_refutes_is_not_predicted_until_one_agrees() -> None:
    failed = checked("the training thread", "host", Agreement.BESIDE)
    known = ceilings_of([failed])
    for family in ("host", "sync"):
        found = known.bound(Predicted(HALF, family))
        assert found.speedup is None
        assert "a delay in the training thread did not cost" in str(found.refused)
    assert known.bound(Predicted(HALF, "feed")) == Predicted(HALF, "feed")
    noisy = checked("the training thread", "host", Agreement.UNDECIDED)
    assert ceilings_of([failed, noisy]).refuted
    agreed = checked("the training thread", "host", Agreement.NEAR)
    assert not ceilings_of([failed, agreed]).refuted


def test_a_share_of_what_lies_outside_of_windows_has_an_interval() -> None:
    of = seen(gpu(), {"busy.math": 50, "idle.io_main.eval": 50})
    found = priced(of, Hosted(("idle.io_main.eval",), Interval(0.6, 0.9, 1.0))).speedup
    assert found is not None
    assert found.low <= 1.0
    assert found.mid == pytest.approx(1 / (1 - 0.05), rel=1e-6)
    assert found.high >= 1 / (1 - 0.2 * 1.1) - 1e-9


# ── What is measured by itself ──────────────────────────────────────────────────────────────────


def test_what_is_measured_by_itself_is_worth_what_its_own_spread_leaves_of_it() -> None:
    drop, few = Drop(("idle.io_main.checkpoint",)), {"busy.math": 94, "idle.io_main.checkpoint": 6}
    of = seen(gpu(), few)
    known = priced(stepped(of, spreads={"idle.io_main.checkpoint": 0.1}), drop)
    vague = priced(stepped(of, spreads={"idle.io_main.checkpoint": 0.9}), drop)
    assert worth_naming(known)
    assert not worth_naming(vague)
    assert bounds(vague)[0] < bounds(known)[0]
