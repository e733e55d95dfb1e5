"""Prices: run rows outside windows, one thread without a device, replay for all else; ceilings."""

from collections.abc import Sequence

import pytest
from msgspec import field
from msgspec.structs import replace

from gapless.catalogue.examples.evidence import evidence_of, with_steps
from gapless.catalogue.examples.example_facts import cpu, ddp, gpu, worker_loader, world
from gapless.catalogue.examples.parts import example_use, example_workers, operator
from gapless.catalogue.examples.ranks import evidence_of_ranks
from gapless.catalogue.fixes.host.no_empty_cache import omit_allocations
from gapless.catalogue.queries.device_waits import min_step_share
from gapless.model.change import (
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
from gapless.model.edit import Applicability
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection
from gapless.model.trial import Side, Trial, TrialVerdict
from gapless.pricing.ceilings import Ceilings, ceilings_of
from gapless.pricing.charged import charge_changes
from gapless.pricing.price import Prices, is_worth_naming, price_changes, price_detection
from gapless.pricing.simulators.simulator import RunSimulator
from tests.study.stand_in import StandIn

HALF = Estimate(0.5, 0.5, 0.5)


class ConstantSimulator(StandIn, frozen=True):
    """Gives the same for whatever it plays, and notes what that was."""

    speedup: Estimate
    family: str = "sync"
    calls: list[tuple[Change, ...]] = field(default_factory=list[tuple[Change, ...]])

    def play(self, changes: Sequence[Change]) -> Prediction:
        self.calls.append(tuple(changes))
        return Prediction(self.speedup, self.family)


def predict_gain(
    evidence: Evidence, *changes: Change, simulator: ConstantSimulator | None = None
) -> Prediction:
    replay = simulator or RunSimulator(refusal="nothing is replayed in this test")
    return price_changes(Prices(evidence, replay, Ceilings()), changes)


def predict_one_thread(evidence: Evidence, *changes: Change) -> Prediction:
    return price_changes(Prices(evidence, RunSimulator(thread=evidence), Ceilings()), changes)


def bounds(prediction: Prediction) -> tuple[float, float, float]:
    assert prediction.speedup is not None, prediction.refused
    return prediction.speedup.low, prediction.speedup.mid, prediction.speedup.high


CHECKPOINTS = evidence_of(gpu(), {"busy.math": 70, "idle.io_main.checkpoint": 20, "idle.gc": 10})


def test_what_lies_outside_windows_is_taken_off_the_step() -> None:
    prediction = predict_gain(CHECKPOINTS, Drop(("idle.io_main.checkpoint",)))
    assert prediction.family == "tail"
    assert bounds(prediction)[1] == pytest.approx(100 / 80)
    assert bounds(prediction)[0] < 100 / 80 < bounds(prediction)[2]


def test_of_checkpoints_that_are_kept_their_time_stays() -> None:
    prediction = predict_gain(CHECKPOINTS, Drop(("idle.io_main.checkpoint",), keep=0.5))
    assert bounds(prediction)[1] == pytest.approx(100 / 90)


def test_what_two_changes_name_goes_once() -> None:
    twice = (Drop(("idle.io_main.checkpoint",)), Drop(("idle.io_main",)))
    assert bounds(predict_gain(CHECKPOINTS, *twice))[1] == pytest.approx(100 / 80)


def test_what_is_within_steps_is_replayed_of_the_step_without_what_lies_outside() -> None:
    simulator = ConstantSimulator(Estimate(2.0, 2.0, 2.0))
    drop = Drop(("idle.sync", "idle.gc"))
    waits = {"busy.math": 30, "idle.sync.return": 40, "idle.io_main.checkpoint": 20, "idle.gc": 10}
    prediction = predict_gain(evidence_of(gpu(), waits), drop, simulator=simulator)
    assert simulator.calls == [(Drop(("idle.sync",)),)]
    # 70 ms of a step of 100 lie within; they become 35, checkpoints stay, the collector goes.
    assert bounds(prediction)[1] == pytest.approx(100 / (35 + 20))


def test_a_foreign_trace_has_nothing_outside_its_windows() -> None:
    simulator = ConstantSimulator(Estimate(1.1, 1.2, 1.3))
    foreign = evidence_of(None, {"busy.math": 70, "idle.io_main.checkpoint": 30})
    drop = Drop(("idle.io_main.checkpoint",))
    assert bounds(predict_gain(foreign, drop, simulator=simulator)) == (1.1, 1.2, 1.3)
    assert simulator.calls == [(drop,)]


def test_what_a_device_leaves_undone_for_others_is_taken_off_the_step() -> None:
    simulator = ConstantSimulator(Estimate(2.0, 2.0, 2.0))
    evidence = evidence_of(gpu(), {"busy.math": 60, "idle.device.wait": 20, "idle.gc": 20})
    low, mid, high = bounds(
        predict_gain(evidence, Drop(("idle.device.wait",)), simulator=simulator)
    )
    assert (low, mid) == (pytest.approx(100 / 83), pytest.approx(100 / 80))
    assert high == pytest.approx(100 / 60)  # as much again within kernels
    assert simulator.calls == []


def test_waits_for_memory_that_steps_ask_for_are_not_doubled() -> None:
    calls = operator("cudaMalloc", 100, 1.0)
    evidence = evidence_of(gpu(), {"busy.math": 60, "idle.device.wait": 40}, calls)
    (_, waits) = omit_allocations(evidence)
    assert charge_changes(evidence, (waits,)).max_share == pytest.approx(40 / 100)
    assert charge_changes(evidence, (Drop(("idle.device.wait",)),)).max_share == pytest.approx(0.8)
    _, mid, high = bounds(predict_gain(evidence, waits))
    assert mid == pytest.approx(100 / 60)
    assert high < 1.1 * mid


def test_of_several_ranks_what_devices_leave_undone_goes_likewise() -> None:
    leaves = {"busy.math": 60, "idle.device.wait": 40}
    evidence = evidence_of_ranks(gpu(ddp(), world(ranks=2)), leaves, leaves)
    assert bounds(predict_gain(evidence, Drop(("idle.device.wait",))))[1] == pytest.approx(100 / 60)


def test_what_a_device_leaves_undone_stays_where_it_is_not_meant() -> None:
    simulator = ConstantSimulator(Estimate(2.0, 2.0, 2.0))
    leaves = {"busy.math": 20, "idle.sync.return": 40, "idle.device.wait": 20, "idle.gc": 20}
    prediction = predict_gain(
        evidence_of(gpu(), leaves), Drop(("idle.gc", "idle.sync")), simulator=simulator
    )
    assert bounds(prediction)[1] == pytest.approx(100 / (80 / 2))


def test_what_cannot_be_replayed_has_no_price_and_says_why() -> None:
    prediction = predict_gain(CHECKPOINTS, Omit(("aten::item",)))
    assert prediction.speedup is None
    assert prediction.refused == "nothing is replayed in this test"


def test_nothing_is_predicted_without_changes_or_without_steps() -> None:
    assert predict_gain(CHECKPOINTS).speedup is None
    assert predict_gain(evidence_of(None, {}), Drop(("idle.gc",))).refused == "there are no steps"


# ── One thread ──────────────────────────────────────────────────────────────────────────────────

ONE_THREAD = evidence_of(
    cpu(),
    {"busy.math": 60, "busy.elementwise": 20, "idle.host.python": 20},
    replace(operator("aten::item", calls=20, host_ms=10), host_self_ns=1),
    operator("aten::_local_scalar_dense", calls=20, host_ms=8),
)


def test_without_a_device_time_goes_off_the_thread() -> None:
    prediction = predict_one_thread(ONE_THREAD, Drop(("idle.host.python",)))
    assert bounds(prediction)[1] == pytest.approx(100 / 80)
    halved = predict_one_thread(ONE_THREAD, Scale(HALF, ("busy.math",)))
    assert (halved.family, bounds(halved)[1]) == ("kernel", pytest.approx(100 / 70))
    assert bounds(predict_one_thread(ONE_THREAD, HostChange(("idle.host",), HALF)))[
        1
    ] == pytest.approx(100 / 90)


def test_operators_that_lie_within_one_another_are_not_taken_off_twice() -> None:
    low, mid, high = bounds(
        predict_one_thread(ONE_THREAD, Omit(("aten::item", "aten::_local_scalar_dense")))
    )
    assert low < mid == pytest.approx(100 / 90)
    assert high == pytest.approx(100 / 82)


def test_what_workers_are_waited_for_may_eat_what_the_thread_saves() -> None:
    waits = evidence_of(
        cpu(worker_loader()),
        {"busy.math": 60, "idle.data.decode": 40},
        example_use(worker_loader(), {"decode": 40.0}, example_workers(8, {"decode": 1.0})),
    )
    prediction = predict_one_thread(waits, Scale(HALF, ("busy.math",)))
    assert bounds(prediction)[0] <= 1.0 < bounds(prediction)[1]
    assert prediction.notes == (
        "workers are waited for: what the thread saves may be waited for instead",
    )


@pytest.mark.parametrize(
    "change",
    [Merge(("Optimizer.step#*",), 3), CopyChange(pinned=True), LoaderChange(0, wait=False)],
)
def test_of_one_thread_some_is_not_known(change: Change) -> None:
    assert predict_one_thread(ONE_THREAD, change).speedup is None


# ── Worth ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("low", "worth"), [(1.021, True), (1.019, False)])
def test_worth_naming_is_what_surely_gains_two_percent(low: float, *, worth: bool) -> None:
    assert is_worth_naming(Prediction(Estimate(low, 1.2, 1.3), "sync")) is worth


def test_what_has_no_price_is_not_worth_naming() -> None:
    assert not is_worth_naming(Prediction(None, "sync"))


def test_below_fifty_steps_all_is_provisional() -> None:
    evidence = with_steps(ONE_THREAD, regular=49)
    assert Prices(evidence, RunSimulator(refusal=""), Ceilings()).provisional
    assert not Prices(ONE_THREAD, RunSimulator(refusal=""), Ceilings()).provisional


def test_a_finding_costs_what_the_middle_of_its_price_takes_off_a_step() -> None:
    detection = Detection("G901", "slow", "It is slow.", (Drop(("idle.sync",)),))
    simulator = ConstantSimulator(Estimate(1.9, 2.0, 2.1))
    finding = price_detection(Prices(CHECKPOINTS, simulator, Ceilings()), detection)
    assert finding.cost_ns == pytest.approx(
        100e6 * (1 - 1 / bounds(finding.prediction)[1]), rel=1e-6
    )


def test_batches_leave_more_beside_them_only_where_no_gpu_trains() -> None:
    change = LoaderChange(0, stages={"other": 0.0})
    detection = Detection("G901", "slow", "It is slow.", (change,), no_remedy="x")
    leaves = {"idle.data.main": 80, "busy.math": 20}
    on_gpu, on_cpu = (
        price_detection(
            Prices(
                evidence_of(facts, leaves, on_device=False),
                ConstantSimulator(Estimate(1.9, 2.0, 2.1)),
                Ceilings(),
            ),
            detection,
        ).prediction
        for facts in (gpu(), cpu())
    )
    assert bounds(on_gpu)[1] == pytest.approx(2.0 / 0.96)
    assert bounds(on_cpu)[1] == pytest.approx(2.0 / 0.93)


# ── Ceilings ────────────────────────────────────────────────────────────────────────────────────


def trial_of(*sides: tuple[tuple[str, ...], Estimate]) -> Trial:
    trial_sides = tuple(
        Side(
            chr(66 + index),
            fixes,
            "",
            (),
            Applicability.ABLATION,
            TrialVerdict.CONFIRMED,
            speedup,
            None,
        )
        for index, (fixes, speedup) in enumerate(sides)
    )
    return Trial("01", ("python",), None, (), "AB", trial_sides, 0.01, None, None, "warm", 1.0)


def test_no_prediction_is_above_the_measured_ceiling_of_its_kind() -> None:
    ceilings = ceilings_of(
        [
            trial_of((("cached-batch",), Estimate(1.3, 1.4, 1.5))),
            trial_of(
                (("cached-batch-on-device",), Estimate(1.5, 1.6, 1.7)),
                (("no-logging", "no-checkpoint"), Estimate(1.0, 1.01, 1.02)),
            ),
        ]
    )
    prediction = Prediction(Estimate(1.4, 1.8, 2.0), "feed")
    bounded = ceilings.bound(prediction)
    assert bounds(bounded) == (1.4, 1.5, 1.5)
    assert bounded.notes == ("bounded by the ceiling that was measured: 1.50×",)
    assert bounds(ceilings.bound(replace(prediction, family="copy"))) == (1.4, 1.7, 1.7)
    assert bounds(ceilings.bound(replace(prediction, family="tail"))) == (1.02, 1.02, 1.02)
    assert ceilings.bound(replace(prediction, family="sync")) == replace(prediction, family="sync")
    below = Prediction(Estimate(1.1, 1.2, 1.3), "feed")
    assert ceilings.bound(below) == below


def test_only_ablations_are_ceilings() -> None:
    side = replace(
        trial_of((("cached-batch",), HALF)).sides[0], applicability=Applicability.IDENTICAL
    )
    assert not ceilings_of([replace(trial_of(), sides=(side,))]).measured


def test_a_share_of_what_lies_outside_of_windows_has_an_interval() -> None:
    evidence = evidence_of(gpu(), {"busy.math": 50, "idle.io_main.eval": 50})
    speedup = predict_gain(
        evidence, HostChange(("idle.io_main.eval",), Estimate(0.6, 0.9, 1.0))
    ).speedup
    assert speedup is not None
    assert speedup.low <= 1.0
    assert speedup.mid == pytest.approx(1 / (1 - 0.05), rel=1e-6)
    assert speedup.high >= 1 / (1 - 0.2 * 1.1) - 1e-9


# ── What is measured by itself ──────────────────────────────────────────────────────────────────


def test_what_is_measured_by_itself_is_worth_what_its_own_spread_leaves_of_it() -> None:
    drop, leaves = (
        Drop(("idle.io_main.checkpoint",)),
        {"busy.math": 94, "idle.io_main.checkpoint": 6},
    )
    evidence = evidence_of(gpu(), leaves)
    certain = predict_gain(with_steps(evidence, spreads={"idle.io_main.checkpoint": 0.1}), drop)
    vague = predict_gain(with_steps(evidence, spreads={"idle.io_main.checkpoint": 0.9}), drop)
    assert is_worth_naming(certain)
    assert not is_worth_naming(vague)
    assert bounds(vague)[0] < bounds(certain)[0]


def test_waits_for_another_rank_make_no_step_as_long_as_they_are() -> None:
    evidence = evidence_of_ranks(
        gpu(ddp(), world(ranks=2)),
        {"busy.tc_math": 40, "idle.host.python": 60},
        {"busy.tc_math": 40, "comm.straggler_wait": 60},
    )
    assert min_step_share(evidence) == pytest.approx(0.4)
