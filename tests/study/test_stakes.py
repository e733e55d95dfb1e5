"""Causes that are not sure to be worth it: what is at stake, which are likely, which to try."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from gapless.catalogue.examples import cpu, ddp, fed, gpu, loader, machine, world
from gapless.catalogue.rank_examples import together
from gapless.catalogue.ruling import Rule
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import made_by, operator, used
from gapless.model.change import (
    NO_LOADER,
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
from gapless.model.finding import Diagnosis, Finding, Loss, Rehearsal
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.study.ceilings import Ceilings
from gapless.study.charged import charged
from gapless.study.diagnose import diagnose
from gapless.study.price import Prices
from gapless.study.replaying import Silent
from gapless.study.stakes import LIKELY, RATHER, odds_of, value_of

pytestmark = pytest.mark.usefixtures("uncalibrated")

HALF = Interval(0.4, 0.5, 0.6)
RUN = seen(
    gpu(loader()),
    {"busy.math": 56, "busy.cast": 10, "copy.h2d.pageable": 6, "idle.gc": 4, "idle.host.python": 20}
    | {"idle.sync.return": 4},
    operator("aten::item", calls=8, host_ms=30),
    operator("Optimizer.step#Adam.step", calls=1, host_ms=12),
)
HANDED = used(loader(), {"decode": 40.0}, made_by(0, {"decode": 0.6}))
QUEUED = made_by(4, {"decode": 1.0}, on_cpu=0.5, run_queue=0.25, blocked=0.25)


def of(loss: Loss, run: Seen = RUN) -> Diagnosis:
    def check(seen: Seen) -> Loss:
        del seen
        return loss

    rule = Rule(loss.code, loss.name, "0.1", (), "", check)
    return diagnose(Prices(run, Silent("no window"), Ceilings()), (rule,))


def at_stake(run: Seen, changes: Sequence[Change]) -> float:
    return charged(run, changes).own


def loss(*changes: Change, helps: tuple[str, ...] = ("no-empty-cache",)) -> Loss:
    return Loss("G901", "odd", "It is odd.", changes, helps=helps)


@pytest.mark.parametrize(
    ("changes", "share"),
    [
        ((Drop(("idle.gc",), keep=0.25),), 0.03),
        ((Hosted(("idle.host.python",), HALF),), 0.10),
        ((Scale(HALF, leaves=("busy.cast",)), Hosted(("idle.host.",), HALF)), 0.15),
        ((Scale(HALF, names=("gemm",)),), 0.0),
        ((Copied(pinned=True),), 0.06),
        ((Omit(("aten::item",)),), 0.24),  # what the device waited for
        ((Omit(("aten::item",), keep=0.9),), 0.03),
        ((Merge(("Optimizer.step#*",), 4),), 0.12),
        ((Omit(("aten::nonzero",)),), 0.0),
        ((Drop(("busy.", "copy.", "idle.")), Drop(("busy.",))), 1.0),
        ((), 0.0),
    ],
)
def test_at_stake_is_what_the_account_has_of_it(changes: tuple[Change, ...], share: float) -> None:
    assert at_stake(RUN, changes) == pytest.approx(share)


def test_without_a_device_calls_take_the_time_of_the_host() -> None:
    run = seen(cpu(loader()), {"busy.math": 100}, operator("aten::item", calls=8, host_ms=30))
    assert at_stake(run, (Omit(("aten::item",)),)) == pytest.approx(0.3)


def test_of_a_loader_it_is_the_wait_and_of_its_threads_the_wait_for_processors() -> None:
    step = {"busy.math": 60, "idle.data.decode": 40}
    assert at_stake(seen(cpu(loader()), step, HANDED), (Feed(0, num_workers=4),)) == pytest.approx(
        0.4
    )
    four = used(fed(), {"decode": 40.0}, QUEUED)
    run = seen(cpu(fed()), step, four)
    assert at_stake(run, (Feed(0, worker_threads=1),)) == pytest.approx(0.1)
    assert at_stake(run, (Feed(7, num_workers=4),)) == 0.0


def test_of_the_threads_of_a_training_it_is_what_they_compute() -> None:
    step = {"busy.math": 60.0, "idle.data.decode": 30.0, "idle.host.python": 10.0}
    fewer = Feed(0, intra_op_threads=1)
    assert at_stake(seen(cpu(loader()), step), (fewer,)) == pytest.approx(0.6)
    assert at_stake(seen(gpu(loader()), step), (fewer,)) == 0.0


def test_threads_of_a_training_without_a_loader_are_worth_a_trial() -> None:
    crowded = replace(cpu(machine(cpus=2, intra_op_threads=16, device=None)), loaders=())
    fewer = (Feed(NO_LOADER, intra_op_threads=2),)
    found = of(loss(*fewer, helps=("intra-op-threads=2",)), seen(crowded, {"busy.math": 80}))
    (one,) = found.findings
    assert (one.share, one.predicted.speedup) == (pytest.approx(1.0), None)


def test_waits_that_the_device_does_not_feel_are_not_at_stake() -> None:
    run = seen(gpu(loader()), {"busy.math": 99, "idle.data.decode": 1}, HANDED)
    assert at_stake(run, (Feed(0, num_workers=4),)) == pytest.approx(0.01)


def test_a_cause_without_a_price_is_worth_a_trial_if_enough_is_at_stake() -> None:
    found = of(loss(Drop(("idle.sync",))))
    (one,) = found.to_try
    assert (one.finding.loss.code, one.share) == ("G901", pytest.approx(0.04))
    assert [each.asked for each in one.remedies] == ["no-empty-cache"]
    assert (found.findings, found.present) == ((), ())


@pytest.mark.parametrize(
    "silent",
    [
        loss(Drop(("idle.sync",), keep=0.6)),  # 1.6 %: below what is worth naming
        loss(Drop(("idle.sync",)), helps=()),  # nobody knows what to try
        loss(Drop(("idle.sync",)), helps=("no-sync",)),  # refused: there is one rank
        loss(Hosted(("idle.host.",), HALF), helps=("compile",)),  # risky, and less than half
        replace(loss(Hosted(("idle.host.",), HALF)), to_try=True),
    ],
)
def test_what_is_small_refused_or_risky_is_only_seen(silent: Loss) -> None:
    found = of(silent)
    assert found.to_try == ()
    assert [one.loss for one in found.present] == [silent]


def test_something_risky_is_asked_for_where_half_of_the_step_is_at_stake() -> None:
    found = of(loss(Scale(Interval(0.0, 0.1, 0.2), leaves=("busy.",)), helps=("compile",)))
    assert [one.share for one in found.findings] == [pytest.approx(0.594)]
    less = of(loss(Scale(Interval(0.0, 0.4, 0.5), leaves=("busy.",)), helps=("compile",)))
    assert (less.findings, less.to_try) == ((), ())


# ── named by what is charged to them ────────────────────────────────────────────────────────────

A_THIRD = Drop(("busy.",), keep=0.5)


def test_a_cause_by_hand_is_named_by_its_share_and_what_nobody_can_change_is_not() -> None:
    by_hand = replace(loss(A_THIRD, helps=()), no_remedy="write it anew")
    (one,) = of(by_hand).findings
    assert (one.share, one.remedies) == (pytest.approx(0.33), ())
    assert of(loss(A_THIRD, helps=())).findings == ()
    assert of(replace(by_hand, changes=(Drop(("busy.",), keep=0.8),))).findings == ()


def test_what_others_do_to_the_machine_is_not_named_by_its_share() -> None:
    others = replace(loss(Drop(("busy.",))), name="taken-processors", no_remedy="run it alone")
    assert of(others).findings == ()


def test_of_several_ranks_it_is_what_each_rank_has() -> None:
    uneven = ({"idle.gc": 60, "busy.math": 40}, {"idle.gc": 20, "busy.math": 80})
    run = together(cpu(ddp(), world(ranks=2)), *uneven)
    assert at_stake(run, (Drop(("idle.gc",)),)) == pytest.approx(0.2)


def test_of_a_straggler_it_is_what_the_others_wait() -> None:
    late = ({"comm.straggler_wait": 60, "busy.math": 40}, {"busy.math": 100})
    run = together(cpu(ddp(), world(ranks=2)), *late)
    assert at_stake(run, (Drop(("comm.straggler_wait",)),)) == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("gain", "named"),
    [
        ((0.95, 1.3, 1.7), True),  # vague, and likely
        ((0.95, 1.1, 1.3), False),  # its middle says that it is little
        ((0.5, 1.2, 1.9), False),  # as likely as not
    ],
)
def test_a_vague_price_is_named_by_the_share_unless_it_says_little(
    gain: tuple[float, float, float], *, named: bool
) -> None:
    found = likely(gain, loss(A_THIRD))
    assert bool(found.findings) is named


def test_the_order_is_that_of_what_goes_at_least() -> None:
    def finding(low: float | None, share: float | None) -> Finding:
        speedup = None if low is None else Interval(low, low, low)
        return Finding(loss(), Predicted(speedup, "host"), None, share)

    assert value_of(finding(1.3, None)) > value_of(finding(None, 0.9)) > 1.25
    assert value_of(finding(0.9, 0.4)) == pytest.approx(1 / 0.9)
    assert value_of(replace(finding(None, 0.9), loss=replace(loss(), to_try=True))) == 1.0


def test_a_foreign_trace_has_no_fixes_to_try() -> None:
    found = of(loss(Drop(("idle.sync",))), Seen(RUN.study, None))
    assert found.to_try == ()


# ── likely ones ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("low", "mid", "high", "least", "odds"),
    [
        (0.99, 1.26, 1.54, 0.02, 0.925),  # ln(1.26 / 1.02) is 1.44 times its spread
        (0.36, 1.23, 2.93, 0.02, 0.599),
        (1.02, 1.02, 1.02, 0.02, 1.0),
        (1.0, 1.0, 1.0, 0.02, 0.0),
        (0.9, 1.02, 1.2, 0.02, 0.5),
    ],
)
def test_the_odds_are_those_of_the_interval(
    low: float, mid: float, high: float, least: float, odds: float
) -> None:
    assert odds_of(Interval(low, mid, high), least) == pytest.approx(odds, abs=2e-3)


@dataclass(frozen=True)
class Told:
    """Foretells one gain of whatever is asked."""

    gain: Interval
    rehearsal: Rehearsal | None = None

    def play(self, changes: Sequence[Change]) -> Predicted:
        del changes
        return Predicted(self.gain, "host")

    def account(self, changes: Sequence[Change]) -> None:
        del changes  # it plays no traces


def likely(gain: tuple[float, float, float], one: Loss) -> Diagnosis:
    def check(seen: Seen) -> Loss:
        del seen
        return one

    rule = Rule(one.code, one.name, "0.1", (), "", check)
    return diagnose(Prices(RUN, Told(Interval(*gain)), Ceilings()), (rule,))


def test_a_cause_that_is_likely_to_be_worth_it_is_worth_a_trial() -> None:
    found = likely((0.95, 1.3, 1.7), loss(Hosted(("idle.host.",), HALF)))
    (one,) = found.to_try
    assert one.odds is not None
    assert one.odds > LIKELY
    assert (found.findings, found.present) == ((), ())
    assert str(found.outlook).endswith("; the likeliest cause: odd")


def test_three_to_two_is_enough_where_half_of_the_step_is_at_stake() -> None:
    gain = (0.8, 1.1, 1.5)
    assert LIKELY > odds_of(Interval(*gain), 0.02) > RATHER
    assert [one.odds is None for one in likely(gain, loss(Drop(("busy.",)))).to_try] == [False]
    assert likely(gain, loss(A_THIRD)).to_try == ()


@pytest.mark.parametrize(
    ("gain", "silent"),
    [
        ((0.8, 1.04, 1.3), loss(Hosted(("idle.host.",), HALF))),  # as likely as not
        ((0.95, 1.3, 1.7), loss(Hosted(("idle.host.",), HALF), helps=())),
        ((0.95, 1.3, 1.7), loss(Hosted(("idle.host.",), HALF), helps=("compile",))),  # risky
    ],
)
def test_what_is_unlikely_or_asks_for_something_is_only_seen(
    gain: tuple[float, float, float], silent: Loss
) -> None:
    found = likely(gain, silent)
    assert found.to_try == ()
    assert [one.loss for one in found.present] == [silent]
