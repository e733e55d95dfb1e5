"""What a menu measured again keeps: figures of sides that were what they should be, no others."""

from benchmarks.menus.repeating import repeated_row
from gapless.model.edit import Applicability
from gapless.model.estimate import Estimate
from gapless.model.trial import Side, TrialVerdict

LINE = {"name": "more-workers-4", "speedup": {"low": 1.1, "mid": 1.2, "high": 1.3}}


def _side(verdict: TrialVerdict, mid: float, why: str | None = None) -> Side:
    speedup = Estimate(mid / 1.05, mid, mid * 1.05)
    fixes = ("more-workers-4",)
    return Side("B", fixes, "workers", (), Applicability.RISKY, verdict, speedup, job=None, why=why)


def test_alike_intervals_agree_and_others_differ() -> None:
    alike = repeated_row(LINE, _side(TrialVerdict.CONFIRMED, 1.25))
    differing = repeated_row(LINE, _side(TrialVerdict.NOTHING, 1.0))
    assert alike["agrees"] is True
    assert alike["speedup"] is not None
    assert differing["agrees"] is False


def test_an_edit_that_took_no_effect_has_no_figure() -> None:
    row = repeated_row(
        LINE, _side(TrialVerdict.NOTHING, 1.0, "the edit took no effect: nothing called it")
    )
    assert row["speedup"] is None
    assert row["agrees"] is None
    assert row["why"] == "the edit took no effect: nothing called it"
