"""A prediction as two timelines: one step, replayed as it is and with a change."""

from functools import cache

import pytest
from msgspec.structs import replace

from gapless.model.change import Change, Drop
from gapless.model.edit import Proposal
from gapless.model.leaf import GROUPS
from gapless.model.picture import Forecast, Picture, StripKind
from gapless.pricing import forecast
from gapless.pricing.diagnose import diagnose
from gapless.pricing.forecast import draw_forecast
from gapless.pricing.price import Prices
from gapless.pricing.propose import propose_fixes
from gapless.store.run.recordings import load
from gapless.study import Options
from gapless.study.build_run import account_run, prices_of_run
from tests.traces import recorded_run


@cache
def story() -> tuple[Prices, tuple[Proposal, ...]]:
    prices = prices_of_run(
        account_run(load(recorded_run()), Options(), lambda _: None), cached=True
    )
    return prices, propose_fixes(prices, diagnose(prices))


def groups_of(picture: Picture) -> dict[str, int]:
    """Return what the account of a picture holds of each group, in ns."""
    (account,) = [strip for strip in picture.strips if strip.kind is StripKind.ACCOUNT]
    lengths = account.end - account.start
    assert int(lengths.sum()) == picture.length_ns
    return {
        group: int(lengths[account.group == number].sum()) for number, group in enumerate(GROUPS)
    }


def draw(monkeypatch: pytest.MonkeyPatch, *changes: Change) -> Forecast | None:
    """Draw the first proposal as if it made other changes."""

    def change_so(_prices: Prices, _proposal: Proposal) -> tuple[Change, ...]:
        return changes

    monkeypatch.setattr(forecast, "predict_effect", change_so)
    return draw_forecast(*story())


def test_waits_for_data_are_as_long_as_the_queue_predicts_and_the_rest_stays() -> None:
    prices, proposals = story()
    assert proposals[0].outcome is not None
    drawn = draw_forecast(prices, proposals)
    assert drawn is not None
    assert (drawn.fix, drawn.by_queue) == ("more-workers", True)
    before, after = groups_of(drawn.before), groups_of(drawn.after)
    waits_ns = prices.evidence.account.groups["data"] / (prices.evidence.account.steps or 1)
    ratio = proposals[0].outcome.groups["data"] / waits_ns
    assert after["data"] == pytest.approx(before["data"] * ratio, rel=1e-3)
    others = [group for group in GROUPS if group != "data"]
    assert [after[group] for group in others] == pytest.approx(
        [before[group] for group in others], rel=1e-2, abs=2_000
    )


def test_a_change_within_the_step_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = draw(monkeypatch, Drop(("copy", "idle.h2d")))
    assert drawn is not None
    assert not drawn.by_queue
    before, after = groups_of(drawn.before), groups_of(drawn.after)
    assert before["copy"] > 0.01 * drawn.before.length_ns
    assert after["copy"] < 0.1 * before["copy"]
    assert drawn.after.length_ns < drawn.before.length_ns


def test_nothing_is_drawn_of_what_no_window_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    prices, proposals = story()
    assert draw(monkeypatch) is None
    assert draw_forecast(prices, ()) is None
    assert draw_forecast(prices, [replace(proposals[0], outcome=None)]) is None
