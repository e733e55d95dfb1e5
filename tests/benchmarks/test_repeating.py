"""What a menu measured again keeps: figures of sides that were what they should be, no others."""

from benchmarks.menus.repeating import told_of
from gapless.model.edit import Applicability
from gapless.model.interval import Interval
from gapless.model.trial import Side, Verdict

LINE = {"name": "more-workers-4", "speedup": {"low": 1.1, "mid": 1.2, "high": 1.3}}


def _side(verdict: Verdict, mid: float, why: str | None = None) -> Side:
    found = Interval(mid / 1.05, mid, mid * 1.05)
    fixes = ("more-workers-4",)
    return Side("B", fixes, "workers", (), Applicability.RISKY, verdict, found, job=None, why=why)


def test_alike_intervals_agree_and_others_differ() -> None:
    alike = told_of(LINE, _side(Verdict.CONFIRMED, 1.25))
    other = told_of(LINE, _side(Verdict.NOTHING, 1.0))
    assert alike["agrees"] is True
    assert alike["speedup"] is not None
    assert other["agrees"] is False


def test_an_edit_that_took_no_effect_has_no_figure() -> None:
    told = told_of(LINE, _side(Verdict.NOTHING, 1.0, "the edit took no effect: nothing called it"))
    assert told["speedup"] is None
    assert told["agrees"] is None
    assert told["why"] == "the edit took no effect: nothing called it"
