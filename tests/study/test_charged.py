"""No price beyond what the account charges to its object: of drawn runs, and of recorded ones."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.catalogue.examples import cpu, fed, gpu
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import made_by, operator, used
from gapless.model.change import Change, Copied, Drop, Feed, Hosted, Merge, Omit, Predicted, Scale
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.study import Study
from gapless.replay.calibration import EXPECTED
from gapless.store.unpack import unpack
from gapless.study import Options
from gapless.study.bounding import SLACK, bound
from gapless.study.ceilings import Ceilings
from gapless.study.charged import charged
from gapless.study.concluding import conclude
from gapless.study.opening import open_study
from gapless.study.price import Prices, price
from gapless.study.replaying import Silent
from tests.study.test_prices import Table

TESTS = Path(__file__).parents[1]
RUNS = sorted(path for path in (TESTS / "data" / "runs").iterdir() if path.is_dir())
ZOO = ("clicks-blocking-g", "clicks-dense-gradients-c", "trainer-one-by-one-g", "speech-padded-c")
HALF = Interval(0.5, 0.5, 0.5)
NONE = Interval(0.0, 0.0, 0.0)
TIMES = st.integers(1, 60)
CHANGES: tuple[Change, ...] = (
    Drop(("idle.gc",)),
    Drop(("idle.sync",)),
    Drop(("idle.io_main.checkpoint",), keep=0.5),
    Hosted(("idle.host.python",), NONE),
    Scale(HALF, leaves=("busy.",)),
    Omit(("aten::item",)),
    Merge(("aten::item",), launches=1),
    Copied(pinned=True),
    Feed(0, persistent_workers=True),
)


def leaves(times: list[int]) -> dict[str, float]:
    names = ("busy.math", "idle.sync.return", "idle.host.python", "idle.gc", "idle.data.decode")
    return dict(zip((*names, "idle.io_main.checkpoint"), map(float, times), strict=True))


def run(times: list[int], *, device: bool) -> Seen:
    of = fed()
    uses = used(of, {"decode": float(times[4])}, made_by(0, {"decode": 1.0}), restart_ns=0)
    facts = gpu(of) if device else cpu(of)
    item = operator("aten::item", calls=10, host_ms=2.0)
    return seen(facts, leaves(times), uses, item)


@given(
    times=st.lists(TIMES, min_size=6, max_size=6),
    change=st.sampled_from(CHANGES),
    gain=st.floats(0.5, 20.0),
    device=st.booleans(),
)
def test_no_price_exceeds_what_is_charged(
    times: list[int], change: Change, gain: float, *, device: bool
) -> None:
    of = run(times, device=device)
    table = Table(Interval(gain * 0.9, gain, gain * 1.1))
    found = price(Prices(of, table, Ceilings()), (change,))
    share = SLACK * charged(of, (change,)).most
    if found.speedup is None:  # it may be nothing, or more than is charged: that is no price
        assert gain * 0.9 <= 1 or share < 0.02
        assert found.refused is not None
        return
    assert found.speedup.low <= found.speedup.mid <= found.speedup.high
    if share < 0.98:
        assert found.speedup.mid <= 1 / (1 - share) * (1 + 1e-9)
        left = max(0.02, 1 - share - EXPECTED[found.family])
        assert found.speedup.high <= (1 / left) * (1 + 1e-9)


def test_a_loader_of_a_test_set_is_worth_no_more_than_it_was_waited_for() -> None:
    of, test = fed(id=0), fed(id=1)
    uses = [used(of, {"decode": 80.0}), used(test, {"decode": 25.0})]
    scene = seen(cpu(of, test), {"busy.math": 1269, "idle.data.decode": 105}, *uses)
    again = (Feed(1, persistent_workers=True),)
    assert charged(scene, again).most == pytest.approx(25 / 1374, rel=0.01)
    promised = Predicted(Interval(1.47, 5.31, 11.01), "feed")
    found = bound(scene, again, promised)
    assert found.speedup is not None
    assert found.speedup.mid == found.speedup.low == pytest.approx(1.0204, abs=1e-3)
    assert found.speedup.high < 1.06
    assert found.notes == (
        "bounded by what the account charges to it: at most 1.02×, where its replay said 5.31×",
    )


def test_what_begins_iterations_is_charged_to_their_loader() -> None:
    of = fed()
    turns = used(of, {"decode": 10.0}, restart_ns=0)
    scene = seen(cpu(of), {"busy.math": 90, "idle.data.decode": 10}, turns)
    assert charged(scene, (Feed(0, persistent_workers=True),)).most == pytest.approx(0.1)
    steps = scene.study.recorded and scene.study.recorded.steps
    assert steps is not None
    more = used(of, {"decode": 10.0}, restart_ns=round(0.2 * 100e6 * steps.count))
    scene = seen(cpu(of), {"busy.math": 90, "idle.data.decode": 10}, more)
    assert charged(scene, (Feed(0, persistent_workers=True),)).most == pytest.approx(0.3)


def test_threads_that_compute_may_give_more_than_a_loader_is_waited_for() -> None:
    scene = seen(cpu(fed()), {"busy.math": 90, "idle.data.decode": 10}, used(fed(), {"decode": 10}))
    assert charged(scene, (Feed(0, num_workers=2, intra_op_threads=1),)).most == 1.0
    assert charged(scene, (Feed(0, worker_threads=1),)).most < 1.0


def test_without_a_synchronisation_what_was_idle_behind_it_goes_too() -> None:
    of = seen(gpu(), {"busy.math": 60, "idle.sync.return": 10, "idle.launch.api": 30})
    assert charged(of, (Drop(("idle.sync",)),)).most == pytest.approx(0.4)
    alone = seen(cpu(), {"busy.math": 60, "idle.sync.return": 10, "idle.host.python": 30})
    assert charged(alone, (Drop(("idle.sync",)),)).most == pytest.approx(0.1)


def test_what_may_be_nothing_or_more_than_is_charged_is_no_price() -> None:
    of = seen(gpu(), {"busy.math": 80, "idle.gc": 20})
    vague = bound(of, (Drop(("idle.gc",)),), Predicted(Interval(0.9, 1.5, 2.0), "tail"))
    assert vague.speedup is None
    assert vague.refused is not None
    sure = bound(of, (Drop(("idle.gc",)),), Predicted(Interval(1.1, 1.5, 2.0), "tail"))
    assert sure.speedup is not None
    within = bound(of, (Drop(("idle.gc",)),), Predicted(Interval(0.9, 1.2, 2.0), "tail"))
    assert within.speedup is not None
    assert (within.speedup.low, within.speedup.mid) == (0.9, 1.2)
    unpriced = Predicted(None, "tail", refused="why")
    assert bound(of, (Drop(("idle.gc",)),), unpriced) is unpriced


@pytest.mark.parametrize("device", [True, False])
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_at_stake_is_no_more_than_what_bounds_the_gain(
    change: Change, *, device: bool
) -> None:
    charge = charged(run([20, 10, 15, 5, 10, 5], device=device), (change,))
    assert 0 <= charge.own <= charge.most + 1e-9
    assert charge.most > 0


def test_what_nobody_changes_is_charged_nothing() -> None:
    of = seen(gpu(), {"busy.math": 80, "idle.gc": 20})
    assert charged(of, (Drop(("idle.gc",), keep=1.0),)).most == 0.0
    assert price(Prices(of, Silent("not here"), Ceilings()), ()).refused is not None


def opened(name: str, place: Path) -> Path:
    found = next((path for path in RUNS if path.name == name), None)
    return found or unpack(TESTS / "zoo" / "records" / name / "run.tar.zst", place)


@pytest.mark.parametrize("name", [*(path.name for path in RUNS), *ZOO])
def test_of_recorded_runs_no_cause_and_no_fix_exceeds_the_account(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[Seen] = []

    def concluded(prices: Prices) -> Study:
        runs.append(prices.seen)
        return conclude(prices)

    monkeypatch.setattr("gapless.study.recorded.making.conclude", concluded)
    study = open_study([opened(name, tmp_path)], Options(cache=False))
    diagnosis = study.diagnosis
    assert diagnosis is not None
    every = (*diagnosis.findings, *diagnosis.present, *(one.finding for one in diagnosis.to_try))
    assert every
    for one in every:
        worth = one.predicted.speedup or one.predicted.at_most
        most = SLACK * charged(runs[-1], one.loss.changes).most
        if worth is not None and most < 0.98:
            assert worth.low <= worth.mid <= worth.high
            assert worth.mid <= (1 + 1e-9) / (1 - most), one.loss.name
        for part in re.finditer(r"([\d.]+) ms of each ([\d.]+) ms step", one.loss.summary):
            assert float(part[1]) <= float(part[2]), one.loss.summary


def test_what_slows_the_whole_host_may_slow_a_step_that_no_window_parts() -> None:
    of = seen(cpu(), {"step": 90.0, "idle.gc": 10.0})
    slower = Hosted(("idle.host", "idle.launch"), Interval(0.5, 0.7, 1.0))
    assert charged(of, (slower,)).own == pytest.approx(0.45)
    assert charged(of, (Hosted(("idle.host.python",), NONE),)).own == 0.0
    assert charged(of, (Drop(("idle.host",)),)).own == 0.0
