"""Causes that are not sure to be worth it: what is at stake, which are likely, which to try."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from gapless.catalogue.declare.listing import parse_request
from gapless.catalogue.declare.rule import Rule
from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.example_facts import (
    cpu,
    ddp,
    gpu,
    loader,
    machine,
    worker_loader,
    world,
)
from gapless.catalogue.examples.parts import example_use, example_workers, operator
from gapless.catalogue.examples.ranks import evidence_of_ranks
from gapless.catalogue.queries.trace_facts import infer_facts
from gapless.model.change import (
    NO_LOADER,
    Change,
    CopyChange,
    Drop,
    HostChange,
    LoaderChange,
    Merge,
    Omit,
    Prediction,
    Scale,
)
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Diagnosis, Finding
from gapless.pricing.ceilings import Ceilings
from gapless.pricing.charged import charge_changes
from gapless.pricing.diagnose import diagnose
from gapless.pricing.price import Prices
from gapless.pricing.simulators.simulator import RunSimulator
from gapless.pricing.worth_trying import MIN_LARGE_ODDS, MIN_ODDS, odds_of, value_of
from tests.study.stand_in import StandIn

pytestmark = pytest.mark.usefixtures("uncalibrated")

HALF = Estimate(0.4, 0.5, 0.6)
RUN = evidence_of(
    gpu(loader()),
    {"busy.math": 56, "busy.cast": 10, "copy.h2d.pageable": 6, "idle.gc": 4, "idle.host.python": 20}
    | {"idle.sync.return": 4},
    operator("aten::item", calls=8, host_ms=30),
    operator("Optimizer.step#Adam.step", calls=1, host_ms=12),
)
LOADER_USE = example_use(loader(), {"decode": 40.0}, example_workers(0, {"decode": 0.6}))
WORKER_USE = example_workers(4, {"decode": 1.0}, on_cpu=0.5, run_queue=0.25, blocked=0.25)


def diagnose_with(detection: Detection, run: Evidence = RUN) -> Diagnosis:
    def check(evidence: Evidence) -> Detection:
        del evidence
        return detection

    rule = Rule(detection.code, detection.name, "0.1", "", "", check)
    return diagnose(Prices(run, RunSimulator(refusal="no window"), Ceilings()), (rule,))


def stake_of(run: Evidence, changes: Sequence[Change]) -> float:
    return charge_changes(run, changes).own_share


def make_detection(*changes: Change, helps: tuple[str, ...] = ("no-empty-cache",)) -> Detection:
    return Detection("G901", "odd", "It is odd.", changes, helps=tuple(map(parse_request, helps)))


@pytest.mark.parametrize(
    ("changes", "share"),
    [
        ((Drop(("idle.gc",), keep=0.25),), 0.03),
        ((HostChange(("idle.host.python",), HALF),), 0.10),
        ((Scale(HALF, leaves=("busy.cast",)), HostChange(("idle.host.",), HALF)), 0.15),
        ((Scale(HALF, names=("gemm",)),), 0.0),
        ((CopyChange(pinned=True),), 0.06),
        ((Omit(("aten::item",)),), 0.24),  # what the device waited for
        ((Omit(("aten::item",), keep=0.9),), 0.03),
        ((Merge(("Optimizer.step#*",), 4),), 0.12),
        ((Omit(("aten::nonzero",)),), 0.0),
        ((Drop(("busy.", "copy.", "idle.")), Drop(("busy.",))), 1.0),
        ((), 0.0),
    ],
)
def test_at_stake_is_what_the_account_has_of_it(changes: tuple[Change, ...], share: float) -> None:
    assert stake_of(RUN, changes) == pytest.approx(share)


def test_without_a_device_calls_take_the_time_of_the_host() -> None:
    run = evidence_of(
        cpu(loader()), {"busy.math": 100}, operator("aten::item", calls=8, host_ms=30)
    )
    assert stake_of(run, (Omit(("aten::item",)),)) == pytest.approx(0.3)


def test_of_a_loader_it_is_the_wait_and_of_its_threads_the_wait_for_processors() -> None:
    step = {"busy.math": 60, "idle.data.decode": 40}
    assert stake_of(
        evidence_of(cpu(loader()), step, LOADER_USE), (LoaderChange(0, num_workers=4),)
    ) == pytest.approx(0.4)
    use = example_use(worker_loader(), {"decode": 40.0}, WORKER_USE)
    run = evidence_of(cpu(worker_loader()), step, use)
    assert stake_of(run, (LoaderChange(0, worker_threads=1),)) == pytest.approx(0.1)
    assert stake_of(run, (LoaderChange(7, num_workers=4),)) == 0.0


def test_of_the_threads_of_a_training_it_is_what_they_compute() -> None:
    step = {"busy.math": 60.0, "idle.data.decode": 30.0, "idle.host.python": 10.0}
    fewer = LoaderChange(0, intra_op_threads=1)
    assert stake_of(evidence_of(cpu(loader()), step), (fewer,)) == pytest.approx(0.6)
    assert stake_of(evidence_of(gpu(loader()), step), (fewer,)) == 0.0


def test_threads_of_a_training_without_a_loader_are_worth_a_trial() -> None:
    crowded = replace(cpu(machine(cpus=2, intra_op_threads=16, device=None)), loaders=())
    fewer = (LoaderChange(NO_LOADER, intra_op_threads=2),)
    diagnosis = diagnose_with(
        make_detection(*fewer, helps=("intra-op-threads=2",)),
        evidence_of(crowded, {"busy.math": 80}),
    )
    (finding,) = diagnosis.findings
    assert (finding.share, finding.prediction.speedup) == (pytest.approx(1.0), None)


def test_waits_that_the_device_does_not_feel_are_not_at_stake() -> None:
    run = evidence_of(gpu(loader()), {"busy.math": 99, "idle.data.decode": 1}, LOADER_USE)
    assert stake_of(run, (LoaderChange(0, num_workers=4),)) == pytest.approx(0.01)


def test_a_cause_without_a_price_is_worth_a_trial_if_enough_is_at_stake() -> None:
    diagnosis = diagnose_with(make_detection(Drop(("idle.sync",))))
    (candidate,) = diagnosis.to_try
    assert (candidate.finding.detection.code, candidate.share) == ("G901", pytest.approx(0.04))
    assert [str(remedy.request) for remedy in candidate.remedies] == ["no-empty-cache"]
    assert (diagnosis.findings, diagnosis.present) == ((), ())


@pytest.mark.parametrize(
    "silent",
    [
        make_detection(Drop(("idle.sync",), keep=0.6)),  # 1.6 %: below what is worth naming
        make_detection(Drop(("idle.sync",)), helps=()),  # nobody knows what to try
        make_detection(Drop(("idle.sync",)), helps=("no-sync",)),  # refused: there is one rank
        make_detection(
            HostChange(("idle.host.",), HALF), helps=("compile",)
        ),  # risky, and less than half
        replace(make_detection(HostChange(("idle.host.",), HALF)), to_try=True),
    ],
)
def test_what_is_small_refused_or_risky_is_only_seen(silent: Detection) -> None:
    diagnosis = diagnose_with(silent)
    assert diagnosis.to_try == ()
    assert [finding.detection for finding in diagnosis.present] == [silent]


def test_something_risky_is_asked_for_where_half_of_the_step_is_at_stake() -> None:
    diagnosis = diagnose_with(
        make_detection(Scale(Estimate(0.0, 0.1, 0.2), leaves=("busy.",)), helps=("compile",))
    )
    assert [finding.share for finding in diagnosis.findings] == [pytest.approx(0.594)]
    smaller = diagnose_with(
        make_detection(Scale(Estimate(0.0, 0.4, 0.5), leaves=("busy.",)), helps=("compile",))
    )
    assert (smaller.findings, smaller.to_try) == ((), ())


# ── named by what is charged to them ────────────────────────────────────────────────────────────

A_THIRD = Drop(("busy.",), keep=0.5)


def test_a_cause_by_hand_is_named_by_its_share_and_what_nobody_can_change_is_not() -> None:
    by_hand = replace(make_detection(A_THIRD, helps=()), no_remedy="write it anew")
    (finding,) = diagnose_with(by_hand).findings
    assert (finding.share, finding.remedies) == (pytest.approx(0.33), ())
    assert diagnose_with(make_detection(A_THIRD, helps=())).findings == ()
    assert diagnose_with(replace(by_hand, changes=(Drop(("busy.",), keep=0.8),))).findings == ()


def test_what_others_do_to_the_machine_is_not_named_by_its_share() -> None:
    contention = replace(
        make_detection(Drop(("busy.",))), name="taken-processors", no_remedy="run it alone"
    )
    assert diagnose_with(contention).findings == ()


def test_of_several_ranks_it_is_what_each_rank_has() -> None:
    uneven = ({"idle.gc": 60, "busy.math": 40}, {"idle.gc": 20, "busy.math": 80})
    run = evidence_of_ranks(cpu(ddp(), world(ranks=2)), *uneven)
    assert stake_of(run, (Drop(("idle.gc",)),)) == pytest.approx(0.2)


def test_of_a_straggler_it_is_what_the_others_wait() -> None:
    late = ({"comm.straggler_wait": 60, "busy.math": 40}, {"busy.math": 100})
    run = evidence_of_ranks(cpu(ddp(), world(ranks=2)), *late)
    assert stake_of(run, (Drop(("comm.straggler_wait",)),)) == pytest.approx(0.6)


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
    diagnosis = diagnose_gain(gain, make_detection(A_THIRD))
    assert bool(diagnosis.findings) is named


def test_the_order_is_that_of_what_goes_at_least() -> None:
    def finding(low: float | None, share: float | None) -> Finding:
        speedup = None if low is None else Estimate(low, low, low)
        return Finding(make_detection(), Prediction(speedup, "host"), None, share)

    assert value_of(finding(1.3, None)) > value_of(finding(None, 0.9)) > 1.25
    assert value_of(finding(0.9, 0.4)) == pytest.approx(1 / 0.9)
    assert (
        value_of(replace(finding(None, 0.9), detection=replace(make_detection(), to_try=True)))
        == 1.0
    )


def test_a_foreign_trace_has_no_fixes_to_try() -> None:
    diagnosis = diagnose_with(
        make_detection(Drop(("idle.sync",))),
        Evidence(replace(RUN.study, recorded=None), infer_facts(RUN.study)),
    )
    assert diagnosis.to_try == ()


# ── likely ones ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("low", "mid", "high", "min_gain", "odds"),
    [
        (0.99, 1.26, 1.54, 0.02, 0.925),  # ln(1.26 / 1.02) is 1.44 times its spread
        (0.36, 1.23, 2.93, 0.02, 0.599),
        (1.02, 1.02, 1.02, 0.02, 1.0),
        (1.0, 1.0, 1.0, 0.02, 0.0),
        (0.9, 1.02, 1.2, 0.02, 0.5),
    ],
)
def test_the_odds_are_those_of_the_interval(
    low: float, mid: float, high: float, min_gain: float, odds: float
) -> None:
    assert odds_of(Estimate(low, mid, high), min_gain) == pytest.approx(odds, abs=2e-3)


class FixedSimulator(StandIn, frozen=True):
    """Foretells one gain of whatever is asked."""

    gain: Estimate

    def play(self, changes: Sequence[Change]) -> Prediction:
        del changes
        return Prediction(self.gain, "host")


def diagnose_gain(gain: tuple[float, float, float], detection: Detection) -> Diagnosis:
    def check(evidence: Evidence) -> Detection:
        del evidence
        return detection

    rule = Rule(detection.code, detection.name, "0.1", "", "", check)
    return diagnose(Prices(RUN, FixedSimulator(Estimate(*gain)), Ceilings()), (rule,))


def test_a_cause_that_is_likely_to_be_worth_it_is_worth_a_trial() -> None:
    diagnosis = diagnose_gain((0.95, 1.3, 1.7), make_detection(HostChange(("idle.host.",), HALF)))
    (candidate,) = diagnosis.to_try
    assert candidate.odds is not None
    assert candidate.odds > MIN_ODDS
    assert (diagnosis.findings, diagnosis.present) == ((), ())
    assert str(diagnosis.outlook).endswith("; the likeliest cause: odd")


def test_three_to_two_is_enough_where_half_of_the_step_is_at_stake() -> None:
    gain = (0.8, 1.1, 1.5)
    assert MIN_ODDS > odds_of(Estimate(*gain), 0.02) > MIN_LARGE_ODDS
    assert [
        candidate.odds is None
        for candidate in diagnose_gain(gain, make_detection(Drop(("busy.",)))).to_try
    ] == [False]
    assert diagnose_gain(gain, make_detection(A_THIRD)).to_try == ()


@pytest.mark.parametrize(
    ("gain", "silent"),
    [
        ((0.8, 1.04, 1.3), make_detection(HostChange(("idle.host.",), HALF))),  # as likely as not
        ((0.95, 1.3, 1.7), make_detection(HostChange(("idle.host.",), HALF), helps=())),
        (
            (0.95, 1.3, 1.7),
            make_detection(HostChange(("idle.host.",), HALF), helps=("compile",)),
        ),  # risky
    ],
)
def test_what_is_unlikely_or_asks_for_something_is_only_seen(
    gain: tuple[float, float, float], silent: Detection
) -> None:
    diagnosis = diagnose_gain(gain, silent)
    assert diagnosis.to_try == ()
    assert [finding.detection for finding in diagnosis.present] == [silent]
