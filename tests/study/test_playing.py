"""Who plays a change: the loader's queue, the windows, both, one thread, or nobody."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from msgspec import Struct, field
from msgspec.structs import replace

from gapless.capture.reread import (
    MAX_EVENTS,
    StudiedCapture,
    choose_captures,
    choose_joint_captures,
    reread_captures,
)
from gapless.catalogue.examples.evidence import evidence_of, with_recorded, with_steps
from gapless.catalogue.examples.example_facts import cpu, gpu, loader, worker_loader
from gapless.catalogue.examples.parts import example_use, example_workers
from gapless.model.change import (
    NO_LOADER,
    Change,
    Drop,
    HostChange,
    LoaderChange,
    Merge,
    Omit,
    Prediction,
    Scale,
)
from gapless.model.estimate import Estimate
from gapless.model.finding import ReplayFidelity
from gapless.model.rhythm import UnlikeSteps
from gapless.pricing.price import Prices, price_changes
from gapless.pricing.simulators.anchoring import (
    drift_of,
    most_waited_loader,
    raise_to_device,
    unprofiled_ns,
)
from gapless.pricing.simulators.simulator import (
    RunSimulator,
    WindowSimulator,
    build_simulator,
    extend_to_all_steps,
)
from gapless.store.run.recordings import load
from gapless.study import Options
from gapless.study.build_run import RunAccount, account_run, prices_of_run
from tests.traces import TRACES, recorded_run

WINDOW = TRACES["eager_launch_bound"]


@cache
def story_account() -> RunAccount:
    return account_run(load(recorded_run()), Options(), lambda _: None)


@cache
def story() -> Prices:
    return prices_of_run(story_account(), cached=True)


def capture(
    path: str = "a", events: int = 10, steps: int = 4, rank: int | None = None
) -> StudiedCapture:
    return StudiedCapture(path, rank, events, steps)


# ── Which windows ───────────────────────────────────────────────────────────────────────────────


def test_the_windows_with_most_steps_are_replayed_as_far_as_they_fit() -> None:
    small = capture("few", steps=3)
    large = capture("many", steps=8)
    long = capture("long", events=MAX_EVENTS - 5, steps=5)
    assert choose_captures([small, large, long]) == (large, small)
    assert choose_captures([capture(str(index)) for index in range(5)]) == tuple(
        capture(str(index)) for index in range(3)
    )


@pytest.mark.parametrize(
    ("captures", "why"),
    [
        ([], "no window with steps"),
        ([capture(steps=0)], "no window has a whole step"),
        ([capture(events=MAX_EVENTS + 1)], "a window of 300,001 events is longer"),
    ],
)
def test_why_no_window_is_replayed(captures: list[StudiedCapture], why: str) -> None:
    assert why in str(choose_captures(captures))


def test_windows_of_several_ranks_are_replayed_with_all_of_them() -> None:
    both = [capture(rank=0), capture(rank=1)]
    assert choose_joint_captures(both) == (tuple(both),)
    alone = choose_joint_captures([replace(capture(rank=0), world=2)])
    assert alone == ("windows of the same steps show 1 of 2 ranks: how these wait is unknown")
    long = [capture(rank=rank, events=MAX_EVENTS) for rank in (0, 1)]
    assert "events of all ranks are more than what is replayed" in str(choose_joint_captures(long))


@pytest.mark.parametrize("cached", [True, False])
def test_a_window_that_is_gone_is_left_out(tmp_path: Path, *, cached: bool) -> None:
    present = capture(str(WINDOW))
    windows = reread_captures([present, capture(str(tmp_path / "gone.json"))], cached=cached)
    assert [window.trace.path for window in windows] == [str(WINDOW)]


# ── What a window is compared with ──────────────────────────────────────────────────────────────


def test_the_plain_step_has_waits_and_lumps_as_the_windows_have_them() -> None:
    outside = {"busy.math": 50, "idle.data.decode": 40, "idle.io_main.checkpoint": 10}
    inside = {"busy.math": 50, "idle.data.decode": 3}
    evidence = evidence_of(gpu(), outside, in_windows=inside)
    assert unprofiled_ns(evidence) == pytest.approx(53e6)


def test_a_thread_that_loads_itself_has_its_loading_as_plain_steps_have_it() -> None:
    outside, inside = (
        {"busy.math": 50, "idle.data.decode": 10},
        {"busy.math": 50, "idle.data.decode": 30},
    )
    for own, expected_ns in (((loader(),), 60e6), ((worker_loader(),), 80e6)):
        stages = {"decode": 10.0}
        workers = example_workers(own[0].num_workers, stages)
        use = example_use(own[0], stages, workers)
        evidence = evidence_of(gpu(*own), outside, use, in_windows=inside)
        assert unprofiled_ns(evidence) == pytest.approx(expected_ns)


def test_a_lump_in_one_step_of_four_is_in_neither() -> None:
    evidence = evidence_of(
        gpu(), {"busy.math": 60, "idle.io_main.eval": 40}, in_windows={"busy.math": 60}
    )
    usual_row = evidence.study.account.rows[0]
    lump_row = replace(usual_row, leaves={"busy.math": 60, "idle.io_main.eval": 90_000_000})
    for rows, expected_ns in (
        ([usual_row, lump_row, usual_row, usual_row], 60e6),
        ([usual_row, lump_row], 105e6),
    ):
        account = replace(evidence.study.account, rows=tuple(rows), steps=len(rows))
        step_ns = unprofiled_ns(replace(evidence, study=replace(evidence.study, account=account)))
        assert step_ns == pytest.approx(expected_ns, rel=1e-3)


@pytest.mark.parametrize(("median_ms", "left_ms"), [(100, 100), (97, 97), (90, 95)])
def test_of_our_own_cost_only_what_is_rare_is_left_out(median_ms: int, left_ms: int) -> None:
    evidence = evidence_of(
        gpu(), {"busy.math": 95, "idle.profiler": 5}, in_windows={"busy.math": 95}
    )
    with_median = with_steps(evidence, median_ns=median_ms * 1_000_000)
    assert unprofiled_ns(with_median) == pytest.approx(left_ms * 1e6)


def test_how_far_hosts_drift_is_not_known_of_profiled_steps() -> None:
    evidence = with_steps(evidence_of(gpu(), {"busy.math": 100}), drift=0.1)
    assert drift_of(evidence) == 0.1
    assert drift_of(with_steps(evidence, drift=None)) is None
    assert drift_of(with_steps(evidence, profiled_only=True)) is None
    assert drift_of(evidence_of(None, {"busy.math": 50})) is None


def test_no_step_is_shorter_than_what_its_device_works_for_it() -> None:
    ahead = evidence_of(gpu(), {"busy.math": 20}, in_windows={"busy.math": 45})
    study = ahead.study
    assert study.recorded is not None
    steps = with_steps(ahead, median_ns=2_000_000, mean_ns=2_000_000, device_median_ns=None)
    assert unprofiled_ns(steps) == pytest.approx(45e6)
    recorded = steps.study.recorded
    assert recorded is not None
    long = raise_to_device(recorded.steps, study)
    assert long is not None
    assert (long.mean_ns, long.median_ns) == (45_000_000, 45_000_000)
    of_device = with_steps(ahead, mean_ns=2_000_000, device_median_ns=30_000_000)
    assert unprofiled_ns(of_device) == pytest.approx(30e6)  # the windows' batches are larger
    assert raise_to_device(None, study) is None
    long_recorded = with_steps(ahead, mean_ns=50_000_000).study.recorded
    assert long_recorded is not None
    assert raise_to_device(long_recorded.steps, study) is long_recorded.steps


def test_without_a_plain_step_there_is_nothing_to_compare_with() -> None:
    evidence = evidence_of(gpu(), {"busy.math": 50})
    assert unprofiled_ns(with_steps(evidence, profiled_only=True)) is None
    assert unprofiled_ns(with_recorded(evidence, account=None)) is None
    assert unprofiled_ns(evidence_of(None, {"busy.math": 50})) is None
    assert unprofiled_ns(evidence_of(gpu(), {"idle.data.decode": 50}, in_windows={})) is None


def test_only_workers_may_be_waited_for_instead() -> None:
    leaves = {"busy.math": 60, "idle.data.decode": 40}
    workers = example_use(worker_loader(), {"decode": 40.0}, example_workers(8, {"decode": 1.0}))
    main_use = example_use(loader(), {"decode": 40.0}, example_workers(0, {"decode": 1.0}))
    waits = evidence_of(gpu(worker_loader()), leaves, workers)
    assert getattr(most_waited_loader(waits, 0.05), "id", None) == 0
    assert most_waited_loader(waits, 0.5) is None
    assert most_waited_loader(evidence_of(gpu(loader()), leaves, main_use), 0.05) is None
    assert most_waited_loader(evidence_of(None, leaves), 0.05) is None


# ── Who plays ───────────────────────────────────────────────────────────────────────────────────


class SpySimulator(Struct, frozen=True):
    """Notes what windows are asked."""

    calls: list[tuple[Change, ...]] = field(default_factory=list[tuple[Change, ...]])
    fidelity: ReplayFidelity | None = None

    def play(self, changes: Sequence[Change]) -> Prediction:
        self.calls.append(tuple(changes))
        return Prediction(Estimate(1.0, 1.0, 1.0), "sync")

    def account(self, changes: Sequence[Change]) -> None:
        del changes  # it plays no traces


def test_a_loader_alone_is_played_on_its_queue_all_else_on_windows() -> None:
    simulator = story().simulator
    assert isinstance(simulator, RunSimulator)
    spy = SpySimulator()
    with_spy = replace(simulator, windows=spy)
    assert with_spy.fidelity is None
    number = simulator.loaders[0].loader.id
    no_wait = LoaderChange(number, wait=False)
    assert with_spy.play([no_wait]).family == "feed"
    assert spy.calls == []
    for changes in ([Drop(("idle.sync",))], [no_wait, Drop(("idle.sync",))], [LoaderChange(99)]):
        with_spy.play(changes)
        assert spy.calls.pop() == tuple(changes)
    loaders = (simulator.loaders[0], replace(simulator.loaders[0], loader=loader(id=99)))
    assert replace(with_spy, loaders=loaders).play([no_wait, LoaderChange(99)]).refused is not None
    prediction = with_spy.play([LoaderChange(NO_LOADER, intra_op_threads=2)])
    assert prediction.refused == "no replay shows what so many threads do"


def test_the_story_is_played_and_its_replay_fits() -> None:
    prices = story()
    fidelity = prices.simulator.fidelity
    assert fidelity is not None
    assert fidelity.refused is None
    assert abs(fidelity.imputed or 1.0) < 0.02
    assert abs(fidelity.unprofiled or 0.0) < 0.1
    unchanged = price_changes(prices, (Scale(Estimate(1.0, 1.0, 1.0), ("busy",)),))
    assert unchanged.speedup is not None
    assert unchanged.speedup.mid == pytest.approx(1.0, abs=1e-3)
    no_wait = price_changes(
        prices,
        (LoaderChange(prices.evidence.facts.loaders[0].id, wait=False),),  # type: ignore[union-attr]
    )
    assert no_wait.speedup is not None
    assert no_wait.speedup.low > 2


def test_where_workers_are_waited_for_they_are_played_too(monkeypatch: pytest.MonkeyPatch) -> None:
    simulator = story().simulator
    assert isinstance(simulator, RunSimulator)
    assert isinstance(simulator.windows, WindowSimulator)
    calls: list[tuple[Change, ...]] = []

    def play(_: object, changes: Sequence[Change], __: object) -> Prediction:
        calls.append(tuple(changes))
        return Prediction(Estimate(1.5, 1.6, 1.7), "sync")

    monkeypatch.setattr("gapless.pricing.simulators.simulator.predict", play)
    number, cut = simulator.loaders[0].loader.id, Drop(("idle.sync",))
    replace(simulator.windows, waited_loader=number).play([cut])
    assert calls == [(cut,), (cut, LoaderChange(number))]
    calls.clear()
    replace(simulator.windows, waited_loader=None).play([cut])
    replace(simulator.windows, waited_loader=number).play([LoaderChange(number)])
    assert calls == [(cut,), (LoaderChange(number),)]


def test_without_windows_one_thread_is_played_and_a_device_is_not() -> None:
    cpu_evidence = evidence_of(cpu(), {"busy.math": 80, "idle.host.python": 20})
    (thread, device) = (
        build_simulator([], evidence)
        for evidence in (cpu_evidence, evidence_of(gpu(), {"busy.math": 80, "idle.gc": 20}))
    )
    assert thread.windows is None
    assert thread.play([Drop(("idle.host",))]).speedup is not None
    assert thread.fidelity is None
    assert device.play([Omit(("aten::item",))]).refused == "there is no window with steps"
    unwindowed = build_simulator([], evidence_of(cpu(), {"step": 10}, in_windows={}))
    assert unwindowed.play([Drop(("idle.host",))]).refused == "there is no window with steps"


def test_steps_of_several_kinds_are_priced_as_the_account_weighs_them() -> None:
    evidence = with_steps(evidence_of(cpu(), {"busy.math": 60, "idle.host.python": 40}))
    recorded = evidence.study.recorded
    assert recorded is not None
    assert recorded.account is not None
    run_simulator = story().simulator
    assert isinstance(run_simulator, RunSimulator)
    assert isinstance(run_simulator.windows, WindowSimulator)
    simulator = RunSimulator(windows=run_simulator.windows, thread=evidence, is_weighed=True)
    drop = Drop(("idle.host.python",))
    assert simulator.play([drop]).speedup == RunSimulator(thread=evidence).play([drop]).speedup
    merge = (Merge(("aten::mm",), 1),)
    assert RunSimulator(thread=evidence).play(merge).refused is not None
    assert simulator.play(merge) == run_simulator.windows.play(merge)
    assert simulator.fidelity == run_simulator.windows.fidelity
    unweighed = replace(simulator, is_weighed=False)
    quicker = (HostChange(("idle.host.python",), Estimate(0.5, 0.5, 0.5)),)
    assert unweighed.play(quicker) == simulator.play(quicker)
    assert unweighed.play([drop]) == run_simulator.windows.play([drop])


def test_a_window_that_cannot_be_replayed_or_read_is_told(tmp_path: Path) -> None:
    evidence = evidence_of(None, {"busy.math": 80})
    unreadable = build_simulator([capture(str(tmp_path / "gone.json"))], evidence)
    assert unreadable.fidelity is not None
    assert unreadable.fidelity.refused == "no window can be read again"
    wild = build_simulator(
        [capture(str(WINDOW))], with_steps(evidence_of(gpu(), {"busy.math": 9e3}))
    )
    assert wild.fidelity is not None
    assert wild.fidelity.refused is not None


def test_a_window_unlike_plain_steps_still_tells_how_well_it_is_replayed_unchanged() -> None:
    long = with_steps(evidence_of(gpu(), {"busy.math": 9e3}))
    fidelity = build_simulator([capture(str(WINDOW))], long).fidelity
    assert fidelity is not None
    assert fidelity.refused is not None
    assert fidelity.windows == 0
    assert fidelity.imputed is not None
    assert abs(fidelity.imputed) < 0.02
    assert fidelity.unprofiled is not None
    assert fidelity.unprofiled < -0.1


# ── Steps that no window holds ──────────────────────────────────────────────────────────────────


def test_steps_that_no_window_holds_save_as_much_time_as_others_do() -> None:
    # Nineteen steps of 10 ms, one of 60 that windows do not show: each of them loses 2 ms.
    total_ms = 19 * 10 + 60
    estimate = extend_to_all_steps(
        Estimate(1.25, 1.25, 1.25), UnlikeSteps(steps=1 / 20, time=60 / total_ms, mean_ns=60)
    )
    assert estimate.mid == pytest.approx(total_ms / (total_ms - 20 * 2))
    assert estimate.low == pytest.approx(total_ms / (total_ms - 19 * 2))
    assert estimate.high == 1.25


def test_what_may_cost_time_costs_no_less_for_steps_that_no_window_holds() -> None:
    estimate = extend_to_all_steps(
        Estimate(0.9, 1.0, 1.2), UnlikeSteps(steps=0.1, time=0.4, mean_ns=60)
    )
    assert (estimate.low, estimate.mid, estimate.high) == (0.9, 1.0, pytest.approx(1.2))


def test_short_steps_that_no_window_holds_save_no_more_than_others() -> None:
    estimate = extend_to_all_steps(
        Estimate(1.25, 1.25, 1.25), UnlikeSteps(steps=0.6, time=0.2, mean_ns=1)
    )
    assert estimate.mid == 1.25
