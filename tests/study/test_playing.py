"""Who plays a change: the loader's queue, the windows, both, one thread, or nobody."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import pytest

from gapless.catalogue.examples import cpu, fed, gpu, loader
from gapless.catalogue.seen_examples import changed, seen, stepped
from gapless.catalogue.seen_parts import made_by, used
from gapless.model.change import (
    NO_LOADER,
    Change,
    Drop,
    Feed,
    Hosted,
    Merge,
    Omit,
    Predicted,
    Scale,
)
from gapless.model.finding import Rehearsal
from gapless.model.interval import Interval
from gapless.model.rhythm import Unlike
from gapless.store.recordings import load
from gapless.study import Options
from gapless.study.anchoring import drift_of, lifted, unprofiled_ns, waited_for
from gapless.study.playing import Alone, Loaders, OneThread, Windows, player_of, spread
from gapless.study.price import Prices, price
from gapless.study.recorded.making import Made, accounted, prices
from gapless.study.replaying import Silent
from gapless.study.rereading import MOST_EVENTS, Capture, chosen, reread

STORY = Path(__file__).parents[1] / "data/runs/2026-11-21T17-12-53-8a06"
WINDOW = Path(__file__).parents[1] / "data/eager_launch_bound.json.gz"


@cache
def made() -> Made:
    return accounted(load(STORY), Options(), lambda _: None)


@cache
def story() -> Prices:
    return prices(made(), cached=True)


def capture(path: str = "a", events: int = 10, steps: int = 4, rank: int | None = None) -> Capture:
    return Capture(path, rank, events, steps)


# ── Which windows ───────────────────────────────────────────────────────────────────────────────


def test_the_windows_with_most_steps_are_replayed_as_far_as_they_fit() -> None:
    few = capture("few", steps=3)
    many = capture("many", steps=8)
    long = capture("long", events=MOST_EVENTS - 5, steps=5)
    assert chosen([few, many, long]) == (many, few)
    assert chosen([capture(str(at)) for at in range(5)]) == tuple(
        capture(str(at)) for at in range(3)
    )


@pytest.mark.parametrize(
    ("every", "why"),
    [
        ([], "no window with steps"),
        ([capture(steps=0)], "no window has a whole step"),
        ([capture(events=MOST_EVENTS + 1)], "a window of 300,001 events is longer"),
        ([capture(rank=0), capture(rank=1)], "several ranks"),
        ([replace(capture(), world=2)], "several ranks"),
    ],
)
def test_why_no_window_is_replayed(every: list[Capture], why: str) -> None:
    assert why in str(chosen(every))


@pytest.mark.parametrize("cached", [True, False])
def test_a_window_that_is_gone_is_left_out(tmp_path: Path, *, cached: bool) -> None:
    there = capture(str(WINDOW))
    found = reread([there, capture(str(tmp_path / "gone.json"))], cached=cached)
    assert [one.trace.path for one in found] == [str(WINDOW)]


# ── What a window is compared with ──────────────────────────────────────────────────────────────


def test_the_plain_step_has_waits_and_lumps_as_the_windows_have_them() -> None:
    outside = {"busy.math": 50, "idle.data.decode": 40, "idle.io_main.checkpoint": 10}
    inside = {"busy.math": 50, "idle.data.decode": 3}
    of = seen(gpu(), outside, in_windows=inside)
    assert unprofiled_ns(of.study) == pytest.approx(53e6)


def test_a_lump_in_one_step_of_four_is_in_neither() -> None:
    of = seen(gpu(), {"busy.math": 60, "idle.io_main.eval": 40}, in_windows={"busy.math": 60})
    usual = of.study.account.rows[0]
    lump = replace(usual, leaves={"busy.math": 60, "idle.io_main.eval": 90_000_000})
    for some, left in (([usual, lump, usual, usual], 60e6), ([usual, lump], 105e6)):
        account = replace(of.study.account, rows=tuple(some), steps=len(some))
        found = unprofiled_ns(replace(of.study, account=account))
        assert found == pytest.approx(left, rel=1e-3)


@pytest.mark.parametrize(("median_ms", "left_ms"), [(100, 100), (97, 97), (90, 95)])
def test_of_our_own_cost_only_what_is_rare_is_left_out(median_ms: int, left_ms: int) -> None:
    of = seen(gpu(), {"busy.math": 95, "idle.profiler": 5}, in_windows={"busy.math": 95})
    found = stepped(of, median_ns=median_ms * 1_000_000)
    assert unprofiled_ns(found.study) == pytest.approx(left_ms * 1e6)


def test_how_far_hosts_drift_is_not_known_of_profiled_steps() -> None:
    of = stepped(seen(gpu(), {"busy.math": 100}), drift=0.1)
    assert drift_of(of.study) == 0.1
    assert drift_of(stepped(of, drift=None).study) is None
    assert drift_of(stepped(of, profiled_only=True).study) is None
    assert drift_of(seen(None, {"busy.math": 50}).study) is None


def test_no_step_is_shorter_than_what_its_device_works_for_it() -> None:
    ahead = seen(gpu(), {"busy.math": 20}, in_windows={"busy.math": 45})
    study = ahead.study
    assert study.recorded is not None
    steps = stepped(ahead, median_ns=2_000_000, mean_ns=2_000_000, device_median_ns=None)
    assert unprofiled_ns(steps.study) == pytest.approx(45e6)
    recorded = steps.study.recorded
    assert recorded is not None
    long = lifted(recorded.steps, study)
    assert long is not None
    assert (long.mean_ns, long.median_ns) == (45_000_000, 45_000_000)
    of_device = stepped(ahead, mean_ns=2_000_000, device_median_ns=30_000_000)
    assert unprofiled_ns(of_device.study) == pytest.approx(30e6)  # the windows' batches are larger
    assert lifted(None, study) is None
    enough = stepped(ahead, mean_ns=50_000_000).study.recorded
    assert enough is not None
    assert lifted(enough.steps, study) is enough.steps


def test_without_a_plain_step_there_is_nothing_to_compare_with() -> None:
    of = seen(gpu(), {"busy.math": 50})
    assert unprofiled_ns(stepped(of, profiled_only=True).study) is None
    assert unprofiled_ns(changed(of, account=None).study) is None
    assert unprofiled_ns(seen(None, {"busy.math": 50}).study) is None
    assert unprofiled_ns(seen(gpu(), {"idle.data.decode": 50}, in_windows={}).study) is None


def test_only_workers_may_be_waited_for_instead() -> None:
    leaves = {"busy.math": 60, "idle.data.decode": 40}
    workers = used(fed(), {"decode": 40.0}, made_by(8, {"decode": 1.0}))
    home = used(loader(), {"decode": 40.0}, made_by(0, {"decode": 1.0}))
    waits = seen(gpu(fed()), leaves, workers).study
    assert getattr(waited_for(waits, 0.05), "id", None) == 0
    assert waited_for(waits, 0.5) is None
    assert waited_for(seen(gpu(loader()), leaves, home).study, 0.05) is None
    assert waited_for(seen(None, leaves).study, 0.05) is None


# ── Who plays ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Noted:
    """Notes what windows are asked."""

    asked: list[tuple[Change, ...]] = field(default_factory=list[tuple[Change, ...]])
    rehearsal: Rehearsal | None = None

    def play(self, changes: Sequence[Change]) -> Predicted:
        self.asked.append(tuple(changes))
        return Predicted(Interval(1.0, 1.0, 1.0), "sync")

    def account(self, changes: Sequence[Change]) -> None:
        del changes  # it plays no traces


def test_a_loader_alone_is_played_on_its_queue_all_else_on_windows() -> None:
    player = story().player
    assert isinstance(player, Loaders)
    noted = Noted()
    mine = replace(player, windows=noted)
    assert mine.rehearsal is None
    number = player.inputs[0].loader.id
    never = Feed(number, wait=False)
    assert mine.play([never]).family == "feed"
    assert noted.asked == []
    for other in ([Drop(("idle.sync",))], [never, Drop(("idle.sync",))], [Feed(99)]):
        mine.play(other)
        assert noted.asked.pop() == tuple(other)
    two = (player.inputs[0], replace(player.inputs[0], loader=loader(id=99)))
    assert replace(mine, inputs=two).play([never, Feed(99)]).refused is not None
    unfed = mine.play([Feed(NO_LOADER, intra_op_threads=2)])
    assert unfed.refused == "no replay tells what so many threads do"


def test_the_story_is_played_and_its_replay_fits() -> None:
    found = story()
    rehearsal = found.player.rehearsal
    assert rehearsal is not None
    assert rehearsal.refused is None
    assert abs(rehearsal.imputed or 1.0) < 0.02
    assert abs(rehearsal.unprofiled or 0.0) < 0.1
    nothing = price(found, (Scale(Interval(1.0, 1.0, 1.0), ("busy",)),))
    assert nothing.speedup is not None
    assert nothing.speedup.mid == pytest.approx(1.0, abs=1e-3)
    never = price(found, (Feed(found.seen.facts.loaders[0].id, wait=False),))  # type: ignore[union-attr]
    assert never.speedup is not None
    assert never.speedup.low > 2


def test_where_workers_are_waited_for_they_are_played_too(monkeypatch: pytest.MonkeyPatch) -> None:
    player = story().player
    assert isinstance(player, Loaders)
    assert isinstance(player.windows, Windows)
    asked: list[tuple[Change, ...]] = []

    def play(_: object, changes: Sequence[Change], __: object) -> Predicted:
        asked.append(tuple(changes))
        return Predicted(Interval(1.5, 1.6, 1.7), "sync")

    monkeypatch.setattr("gapless.study.playing.predict", play)
    number, cut = player.inputs[0].loader.id, Drop(("idle.sync",))
    replace(player.windows, waited=number).play([cut])
    assert asked == [(cut,), (cut, Feed(number))]
    asked.clear()
    replace(player.windows, waited=None).play([cut])
    replace(player.windows, waited=number).play([Feed(number)])
    assert asked == [(cut,), (Feed(number),)]


def test_without_windows_one_thread_is_played_and_a_device_is_not() -> None:
    alone = seen(cpu(), {"busy.math": 80, "idle.host.python": 20})
    (thread, device) = (
        player_of([], one) for one in (alone, seen(gpu(), {"busy.math": 80, "idle.gc": 20}))
    )
    assert isinstance(thread, Loaders)
    assert isinstance(thread.windows, Alone)
    assert thread.play([Drop(("idle.host",))]).speedup is not None
    assert thread.rehearsal is None
    assert device.play([Omit(("aten::item",))]).refused == "there is no window with steps"
    unseen = player_of([], seen(cpu(), {"step": 10}, in_windows={}))
    assert isinstance(unseen, Loaders)
    assert isinstance(unseen.windows, Silent)


def test_steps_of_several_kinds_are_priced_as_the_account_weighs_them() -> None:
    one = stepped(seen(cpu(), {"busy.math": 60, "idle.host.python": 40}))
    recorded = one.study.recorded
    assert recorded is not None
    assert recorded.account is not None
    windows = story().player
    assert isinstance(windows, Loaders)
    assert isinstance(windows.windows, Windows)
    player = OneThread(Alone(one, None), windows.windows, weighed=True)
    gone = Drop(("idle.host.python",))
    assert player.play([gone]).speedup == Alone(one, None).play([gone]).speedup
    merged = (Merge(("aten::mm",), 1),)
    assert Alone(one, None).play(merged).refused is not None
    assert player.play(merged) == windows.windows.play(merged)
    assert player.rehearsal == windows.windows.rehearsal
    alike = replace(player, weighed=False)
    quicker = (Hosted(("idle.host.python",), Interval(0.5, 0.5, 0.5)),)
    assert alike.play(quicker) == player.play(quicker)
    assert alike.play([gone]) == windows.windows.play([gone])


def test_a_window_that_cannot_be_replayed_or_read_is_told(tmp_path: Path) -> None:
    of = seen(None, {"busy.math": 80})
    gone = player_of([capture(str(tmp_path / "gone.json"))], of)
    assert gone.rehearsal is not None
    assert gone.rehearsal.refused == "no window can be read again"
    wild = player_of([capture(str(WINDOW))], stepped(seen(gpu(), {"busy.math": 9e3})))
    assert wild.rehearsal is not None
    assert wild.rehearsal.refused is not None


def test_a_window_unlike_plain_steps_still_tells_how_well_it_is_replayed_unchanged() -> None:
    long = stepped(seen(gpu(), {"busy.math": 9e3}))
    found = player_of([capture(str(WINDOW))], long).rehearsal
    assert found is not None
    assert found.refused is not None
    assert found.windows == 0
    assert found.imputed is not None
    assert abs(found.imputed) < 0.02
    assert found.unprofiled is not None
    assert found.unprofiled < -0.1


# ── Steps that no window holds ──────────────────────────────────────────────────────────────────


def test_steps_that_no_window_holds_save_as_much_time_as_others_do() -> None:
    # Nineteen steps of 10 ms, one of 60 that windows do not show: each of them loses 2 ms.
    whole = 19 * 10 + 60
    found = spread(Interval(1.25, 1.25, 1.25), Unlike(steps=1 / 20, time=60 / whole, mean_ns=60))
    assert found.mid == pytest.approx(whole / (whole - 20 * 2))
    assert found.low == pytest.approx(whole / (whole - 19 * 2))
    assert found.high == 1.25


def test_what_may_cost_time_costs_no_less_for_steps_that_no_window_holds() -> None:
    found = spread(Interval(0.9, 1.0, 1.2), Unlike(steps=0.1, time=0.4, mean_ns=60))
    assert (found.low, found.mid, found.high) == (0.9, 1.0, pytest.approx(1.2))


def test_short_steps_that_no_window_holds_save_no_more_than_others() -> None:
    found = spread(Interval(1.25, 1.25, 1.25), Unlike(steps=0.6, time=0.2, mean_ns=1))
    assert found.mid == 1.25
