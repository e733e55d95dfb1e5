"""No price beyond what the account charges to its object: of drawn runs, and of recorded ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.example_facts import cpu, gpu, worker_loader
from gapless.catalogue.examples.parts import example_use, example_workers, operator
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
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.pricing.bounding import SLACK, bound_by_account
from gapless.pricing.ceilings import Ceilings
from gapless.pricing.charged import charge_changes
from gapless.pricing.price import Prices, price_changes
from gapless.pricing.simulators.simulator import RunSimulator
from gapless.replay.predict.calibration import EXPECTED
from tests.study.test_prices import ConstantSimulator

HALF = Estimate(0.5, 0.5, 0.5)
ZERO = Estimate(0.0, 0.0, 0.0)
TIMES = st.integers(1, 60)
CHANGES: tuple[Change, ...] = (
    Drop(("idle.gc",)),
    Drop(("idle.sync",)),
    Drop(("idle.io_main.checkpoint",), keep=0.5),
    HostChange(("idle.host.python",), ZERO),
    Scale(HALF, leaves=("busy.",)),
    Omit(("aten::item",)),
    Merge(("aten::item",), launches=1),
    CopyChange(pinned=True),
    LoaderChange(0, persistent_workers=True),
)


def leaves(times: list[int]) -> dict[str, float]:
    names = ("busy.math", "idle.sync.return", "idle.host.python", "idle.gc", "idle.data.decode")
    return dict(zip((*names, "idle.io_main.checkpoint"), map(float, times), strict=True))


def run(times: list[int], *, device: bool) -> Evidence:
    loader = worker_loader()
    uses = example_use(
        loader, {"decode": float(times[4])}, example_workers(0, {"decode": 1.0}), restart_ns=0
    )
    facts = gpu(loader) if device else cpu(loader)
    item = operator("aten::item", calls=10, host_ms=2.0)
    return evidence_of(facts, leaves(times), uses, item)


@given(
    times=st.lists(TIMES, min_size=6, max_size=6),
    change=st.sampled_from(CHANGES),
    gain=st.floats(0.5, 20.0),
    device=st.booleans(),
)
def test_no_price_exceeds_what_is_charged(
    times: list[int], change: Change, gain: float, *, device: bool
) -> None:
    evidence = run(times, device=device)
    simulator = ConstantSimulator(Estimate(gain * 0.9, gain, gain * 1.1))
    prediction = price_changes(Prices(evidence, simulator, Ceilings()), (change,))
    share = charge_changes(evidence, (change,)).max_share
    if prediction.speedup is None:  # it may be nothing, or more than is charged: that is no price
        assert gain * 0.9 <= 1 or share < 0.02
        assert prediction.refused is not None
        return
    assert prediction.speedup.low <= prediction.speedup.mid <= prediction.speedup.high
    max_gain = 1 + SLACK * (1 / max(1 - share, 0.02) - 1)
    assert prediction.speedup.mid <= max_gain * (1 + 1e-9)
    max_high = max_gain / (1 - EXPECTED[prediction.family])
    assert prediction.speedup.high <= max_high * (1 + 1e-9)


def test_a_loader_of_a_test_set_is_worth_no_more_than_it_was_waited_for() -> None:
    loader, test_set_loader = worker_loader(id=0), worker_loader(id=1)
    uses = [example_use(loader, {"decode": 80.0}), example_use(test_set_loader, {"decode": 25.0})]
    evidence = evidence_of(
        cpu(loader, test_set_loader), {"busy.math": 1269, "idle.data.decode": 105}, *uses
    )
    changes = (LoaderChange(1, persistent_workers=True),)
    assert charge_changes(evidence, changes).max_share == pytest.approx(25 / 1374, rel=0.01)
    prediction = Prediction(Estimate(1.47, 5.31, 11.01), "feed")
    bounded = bound_by_account(evidence, changes, prediction)
    assert bounded.speedup is not None
    assert bounded.speedup.mid == bounded.speedup.low == pytest.approx(1.0204, abs=1e-3)
    assert bounded.speedup.high < 1.06
    assert bounded.notes == (
        "bounded by what the account charges to it: at most 1.02×, where its replay said 5.31×",
    )


def test_what_begins_iterations_is_charged_to_their_loader() -> None:
    loader = worker_loader()
    use = example_use(loader, {"decode": 10.0}, restart_ns=0)
    evidence = evidence_of(cpu(loader), {"busy.math": 90, "idle.data.decode": 10}, use)
    assert charge_changes(
        evidence, (LoaderChange(0, persistent_workers=True),)
    ).max_share == pytest.approx(0.1)
    steps = evidence.study.recorded and evidence.study.recorded.steps
    assert steps is not None
    restarting_use = example_use(
        loader, {"decode": 10.0}, restart_ns=round(0.2 * 100e6 * steps.count)
    )
    evidence = evidence_of(cpu(loader), {"busy.math": 90, "idle.data.decode": 10}, restarting_use)
    assert charge_changes(
        evidence, (LoaderChange(0, persistent_workers=True),)
    ).max_share == pytest.approx(0.3)


def test_threads_that_compute_may_give_more_than_a_loader_is_waited_for() -> None:
    evidence = evidence_of(
        cpu(worker_loader()),
        {"busy.math": 90, "idle.data.decode": 10},
        example_use(worker_loader(), {"decode": 10}),
    )
    assert (
        charge_changes(evidence, (LoaderChange(0, num_workers=2, intra_op_threads=1),)).max_share
        == 1.0
    )
    assert charge_changes(evidence, (LoaderChange(0, worker_threads=1),)).max_share < 1.0


def test_without_a_synchronisation_what_was_idle_behind_it_goes_too() -> None:
    evidence = evidence_of(gpu(), {"busy.math": 60, "idle.sync.return": 10, "idle.launch.api": 30})
    assert charge_changes(evidence, (Drop(("idle.sync",)),)).max_share == pytest.approx(0.4)
    cpu_evidence = evidence_of(
        cpu(), {"busy.math": 60, "idle.sync.return": 10, "idle.host.python": 30}
    )
    assert charge_changes(cpu_evidence, (Drop(("idle.sync",)),)).max_share == pytest.approx(0.1)


def test_what_may_be_nothing_or_more_than_is_charged_is_no_price() -> None:
    evidence = evidence_of(gpu(), {"busy.math": 80, "idle.gc": 20})
    vague = bound_by_account(
        evidence, (Drop(("idle.gc",)),), Prediction(Estimate(0.9, 1.5, 2.0), "tail")
    )
    assert vague.speedup is None
    assert vague.refused is not None
    sure = bound_by_account(
        evidence, (Drop(("idle.gc",)),), Prediction(Estimate(1.1, 1.5, 2.0), "tail")
    )
    assert sure.speedup is not None
    bounded = bound_by_account(
        evidence, (Drop(("idle.gc",)),), Prediction(Estimate(0.9, 1.15, 2.0), "tail")
    )
    assert bounded.speedup is not None
    assert (bounded.speedup.low, bounded.speedup.mid) == (0.9, 1.15)
    refusal = Prediction(None, "tail", refused="why")
    assert bound_by_account(evidence, (Drop(("idle.gc",)),), refusal) is refusal


@pytest.mark.parametrize("device", [True, False])
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_at_stake_is_no_more_than_what_bounds_the_gain(
    change: Change, *, device: bool
) -> None:
    charge = charge_changes(run([20, 10, 15, 5, 10, 5], device=device), (change,))
    assert 0 <= charge.own_share <= charge.max_share + 1e-9
    assert charge.max_share > 0


def test_what_nobody_changes_is_charged_nothing() -> None:
    evidence = evidence_of(gpu(), {"busy.math": 80, "idle.gc": 20})
    assert charge_changes(evidence, (Drop(("idle.gc",), keep=1.0),)).max_share == 0.0
    assert (
        price_changes(Prices(evidence, RunSimulator(refusal="not here"), Ceilings()), ()).refused
        is not None
    )


def test_what_slows_the_whole_host_may_slow_a_step_that_no_window_parts() -> None:
    evidence = evidence_of(cpu(), {"step": 90.0, "idle.gc": 10.0})
    slower = HostChange(("idle.host", "idle.launch"), Estimate(0.5, 0.7, 1.0))
    assert charge_changes(evidence, (slower,)).own_share == pytest.approx(0.45)
    assert charge_changes(evidence, (HostChange(("idle.host.python",), ZERO),)).own_share == 0.0
    assert charge_changes(evidence, (Drop(("idle.host",)),)).own_share == 0.0
