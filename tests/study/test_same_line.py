"""A cause by hand is worth what its line is worth, if that is more."""

import pytest
from msgspec.structs import replace

from gapless.catalogue.queries.samples import SAMPLED_AT_LINE, SAMPLED_IN_FUNCTION
from gapless.model.change import Drop, HostChange, LoaderChange, Prediction
from gapless.model.edit import FixRequest, Location
from gapless.model.estimate import Estimate
from gapless.model.finding import SAME_LINE, Detection, Finding, Measure
from gapless.pricing.nested import drop_yielding, gives_way, take_line_prices

STEP_NS = 10_000_000


def finding(
    code: str, line: int, low: float, mid: float, *, unless: str | None = None, fix: str = ""
) -> Finding:
    helps = (FixRequest(fix),) if fix else ()
    detection = Detection(
        code,
        code.lower(),
        "It takes long.",
        (HostChange((code,), Estimate(0.5, 0.5, 0.5)),),
        Location("train.py", line),
        helps=helps,
        unless=unless,
    )
    return Finding(detection, Prediction(Estimate(low, mid, 1.5 * mid), "host"), None)


LINE = finding("G219", 12, 1.4, 1.6, unless=SAME_LINE)


def test_the_dearest_cause_by_hand_near_a_line_takes_its_price() -> None:
    cheap, dear, far = (
        finding("G215", 12, 1.1, 1.2),
        finding("G202", 13, 1.1, 1.3),
        finding("G214", 40, 1.1, 1.3),
    )
    priced = take_line_prices([cheap, LINE, dear, far], STEP_NS)
    assert priced[:2] + priced[3:] == [cheap, LINE, far]
    assert priced[2].prediction.speedup == Estimate(1.4, 1.6, 1.5 * 1.6)
    assert priced[2].detection.changes == LINE.detection.changes
    assert priced[2].cost_ns == round(STEP_NS * (1 - 1 / 1.6))
    assert priced[2].detection.code == "G202"


def test_what_is_most_of_a_line_is_the_line_measured_twice() -> None:
    most = finding("G202", 12, 1.2, 1.45)
    priced = take_line_prices([most, LINE], STEP_NS)[0].prediction.speedup
    assert priced is not None
    assert 1.45 < priced.mid < 1.6
    assert (priced.low, priced.high) == (1.4, 1.5 * 1.6)


def test_what_has_a_fix_keeps_its_price() -> None:
    rival = finding("G214", 12, 1.1, 1.2, fix="no-logging")
    assert take_line_prices([rival, LINE], STEP_NS) == [rival, LINE]


def test_what_is_worth_more_alone_is_worth_what_its_line_is_at_least() -> None:
    dear = finding("G202", 12, 1.1, 1.9)
    priced, line = take_line_prices([dear, LINE], STEP_NS)
    assert (priced.prediction.speedup, line) == (Estimate(1.4, 1.9, 1.5 * 1.9), LINE)
    assert priced.detection == dear.detection


def test_what_has_no_price_takes_that_of_its_line() -> None:
    unpriced = replace(finding("G202", 12, 1.1, 1.2), prediction=Prediction(None, "host"))
    assert take_line_prices([unpriced, LINE], STEP_NS)[0].prediction == LINE.prediction


def test_a_line_gives_way_to_what_is_known_only_by_its_function_if_that_is_most_of_it() -> None:
    cheap, dear = finding("G305", 12, 1.02, 1.03), finding("G305", 12, 1.3, 1.5)
    by_function = [
        replace(rival, detection=replace(rival.detection, by_function=True))
        for rival in (cheap, dear)
    ]
    assert [gives_way(LINE, rival) for rival in (cheap, *by_function)] == [True, False, True]
    assert take_line_prices([LINE, by_function[0]], STEP_NS) == [LINE, by_function[0]]


def test_a_line_gives_way_to_what_has_a_fix_if_that_is_most_of_it() -> None:
    small, large = (finding("G305", 12, low, 1.5, fix="no-reads") for low in (1.02, 1.3))
    assert drop_yielding([LINE, small]) == [LINE, small]
    assert drop_yielding([LINE, large]) == [large]


def test_a_slow_stage_gives_way_to_workers_for_the_same_loader_however_little_is_sure() -> None:
    stage = finding("G107", 12, 1.3, 1.5, unless="g101")
    workers = finding("G101", 12, 1.04, 1.3, fix="more-workers=2")
    both = [
        replace(cause, detection=replace(cause.detection, changes=(LoaderChange(0),)))
        for cause in (stage, workers)
    ]
    assert drop_yielding(both) == both[1:]


def test_a_cause_at_any_line_of_a_loop_stands_for_the_loop_if_it_is_most_of_it() -> None:
    loop = replace(LINE, detection=replace(LINE.detection, line_range=(11, 21)))
    inner, small, outer = (
        finding("G305", line, low, 1.5) for line, low in ((23, 1.3), (23, 1.02), (25, 1.3))
    )
    assert [gives_way(loop, rival) for rival in (inner, small, outer)] == [True, False, False]


def test_a_line_does_not_give_way_to_an_evaluation_that_begins_near_it() -> None:
    evaluation = finding("G703", 12, 1.3, 1.5)
    detection = replace(evaluation.detection, changes=(Drop(("idle.io_main.eval",)),))
    assert not gives_way(LINE, replace(evaluation, detection=detection))


def test_of_two_that_stand_for_whatever_is_at_a_line_the_one_worth_less_gives_way() -> None:
    seldom = finding("G705", 12, 1.3, 1.7, unless=SAME_LINE)
    assert gives_way(seldom, LINE)
    assert not gives_way(LINE, seldom)


def test_a_cause_near_two_costly_lines_stands_for_both_only_if_it_is_worth_as_much() -> None:
    near, far = (finding("G219", line, 1.2, 1.3, unless=SAME_LINE) for line in (12, 15))
    small, large = finding("G202", 13, 1.1, 1.32), finding("G202", 13, 1.3, 1.9)
    assert drop_yielding([near, far, small]) == [far, small]
    assert drop_yielding([near, far, large]) == [large]
    assert take_line_prices([far, near, small], STEP_NS)[0] == far


@pytest.mark.parametrize(("in_function", "mid"), [(0.4, 1.625), (0.6, 1.9)])
def test_what_is_worth_more_than_its_line_is_weighed_with_it_if_it_is_nowhere_else(
    in_function: float, mid: float
) -> None:
    dear, line = finding("G202", 12, 0.8, 1.9), LINE
    shares = ((dear, SAMPLED_IN_FUNCTION, in_function), (line, SAMPLED_AT_LINE, 0.4))
    dear, line = (
        replace(
            rival,
            detection=replace(rival.detection, measures=(Measure(name, share, "share"),)),
        )
        for rival, name, share in shares
    )
    priced = take_line_prices([dear, line], STEP_NS)[0]
    assert priced.prediction.speedup is not None
    assert priced.prediction.speedup.mid == pytest.approx(mid, abs=0.001)


def test_a_sure_gain_gives_way_to_none_that_is_not_known() -> None:
    rival = finding("G202", 12, 0.9, 1.9)
    unsure = replace(rival, share=0.4)
    assert drop_yielding([LINE, rival]) == [rival]
    assert drop_yielding([LINE, unsure]) == [LINE, unsure]
