"""Where a step would go after a change: groups that sum to the predicted step exactly."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from gapless.catalogue.examples import fed, gpu
from gapless.catalogue.seen_examples import seen
from gapless.model.account import Account
from gapless.model.change import Change, Drop, Feed, Hosted, Omit, Predicted
from gapless.model.edit import Applicability, Outcome, Proposal
from gapless.model.finding import Rehearsal
from gapless.model.interval import Interval
from gapless.model.leaf import PRINTED
from gapless.model.seen import Seen
from gapless.report.remedies import then_line
from gapless.store.recordings import load
from gapless.study import Options
from gapless.study.after import outcome
from gapless.study.ceilings import Ceilings
from gapless.study.diagnose import diagnose
from gapless.study.playing import Loaders, Windows
from gapless.study.price import Prices, price
from gapless.study.propose import propose
from gapless.study.recorded.making import accounted, prices
from gapless.study.replaying import Silent

STORY = Path(__file__).parents[1] / "data/runs/2026-11-21T17-12-53-8a06"
LEAVES = {"busy.math": 50, "idle.data.decode": 30, "idle.io_main.checkpoint": 20}


@dataclass(frozen=True)
class Told:
    """Gives half the step, whatever is changed, and an account of so many ns by group."""

    groups: dict[str, int]
    rehearsal: Rehearsal | None = None

    def play(self, changes: Sequence[Change]) -> Predicted:
        del changes  # all give the same
        return Predicted(Interval(2.0, 2.0, 2.0), "host")

    def account(self, changes: Sequence[Change]) -> Account:
        del changes  # all give the same
        return Account(sum(self.groups.values()), 2, {}, self.groups, {}, ())


@cache
def story() -> Prices:
    return prices(accounted(load(STORY), Options(), lambda _: None), cached=True)


def after(of: Seen, *changes: Change, player: Told | None = None) -> dict[str, int]:
    """Give what is left of each group, in ms."""
    priced = Prices(of, player or Silent("nothing is played"), Ceilings())
    predicted = price(priced, changes) if player else half()
    found = outcome(priced, changes, predicted)
    assert found is not None
    assert sum(found.groups.values()) == found.step_ns
    return {name: round(ns / 1e6) for name, ns in found.groups.items() if round(ns / 1e6)}


def half() -> Predicted:
    return Predicted(Interval(1.9, 2.0, 2.1), "feed")


def test_what_is_left_of_waits_for_data_is_what_the_others_leave_of_the_step() -> None:
    of = seen(gpu(fed()), {"busy.math": 40, "idle.data.decode": 60})
    assert after(of, Feed(0, num_workers=4)) == {"compute": 40, "data": 10}


def test_a_step_that_is_shorter_than_all_but_its_waits_has_no_waits() -> None:
    of = seen(gpu(fed()), {"busy.math": 60, "idle.data.decode": 40})
    assert after(of, Feed(0, num_workers=4)) == {"compute": 50}


def test_what_lies_outside_of_windows_goes_by_itself() -> None:
    of = seen(gpu(), LEAVES)
    drop = Drop(("idle.io_main.checkpoint",), keep=0.5)
    found = after(of, drop, player=Told({"compute": 1}))
    assert found == {"compute": 50, "data": 30, "io": 10}


def test_what_windows_show_has_the_shares_that_were_played() -> None:
    of = seen(gpu(), {"busy.math": 40, "idle.host.python": 60})
    change = Hosted(("idle.host.",), Interval(0.1, 0.1, 0.1))
    assert after(of, change, player=Told({"compute": 400, "host": 100})) == {
        "compute": 40,
        "host": 10,
    }


def test_what_is_not_predicted_or_not_played_has_no_account() -> None:
    of = seen(gpu(), LEAVES)
    priced = Prices(of, Silent("nothing is played"), Ceilings())
    changes = (Omit(("aten::item",)),)
    assert outcome(priced, changes, half()) is None
    assert outcome(priced, changes, Predicted(None, "host", refused="why")) is None


def test_the_account_of_a_played_window_ends_with_its_steps() -> None:
    player = story().player
    assert isinstance(player, Loaders)
    windows = player.windows
    assert isinstance(windows, Windows)
    plain = windows.account((Hosted(("idle.host.",), Interval(1.0, 1.0, 1.0)),))
    less = windows.account((Hosted(("idle.host.",), Interval(0.2, 0.2, 0.2)),))
    assert plain is not None
    assert less is not None
    assert sum(less.groups.values()) == less.wall_ns < plain.wall_ns
    assert less.groups["host"] < 0.5 * plain.groups["host"]
    longest = max(windows.scenes, key=lambda one: len(one.graph.counted))
    steps = longest.unchanged(longest.alpha.mid)
    assert plain.wall_ns == pytest.approx(float(steps.sum()), rel=1e-6)
    assert windows.account((Feed(0),)) is None


def test_the_first_proposal_of_a_run_says_where_a_step_would_go() -> None:
    found = propose(story(), diagnose(story()))[0]
    step = story().seen.step_ns
    assert found.outcome is not None
    assert found.speedup is not None
    assert step is not None
    assert found.outcome.step_ns == round(step / found.speedup.mid)
    assert sum(found.outcome.groups.values()) == found.outcome.step_ns
    assert set(found.outcome.groups) <= set(PRINTED)


def test_the_report_names_what_takes_most_of_the_step_then() -> None:
    left = Outcome(1000, {"data": 20, "compute": 880, "copy": 95, "host": 5})
    one = Proposal("f", "f", (), Applicability.SAME, outcome=left)
    study = replace(seen(gpu(), LEAVES).study, proposals=(one,))
    line = "after 1 a step would go to compute 88 %, copying 10 %, waiting for data 2 %"
    assert then_line(study) == line
    assert then_line(replace(study, proposals=())) == ""
