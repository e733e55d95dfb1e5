"""Where two explanations of a window disagree about the first cause, that is said."""

from gapless.model.change import Prediction
from gapless.model.estimate import Estimate
from gapless.model.finding import Detection, Finding
from gapless.pricing.contested import CONTESTED, mark_contested


def finding_of(*mids: float) -> Finding:
    estimates = tuple(Estimate(mid * 0.9, mid, mid * 1.1) for mid in mids)
    mid = sum(mids) / len(mids)
    by_explanation = estimates if len(estimates) > 1 else ()
    prediction = Prediction(
        Estimate(mid * 0.9, mid, mid * 1.1), "host", by_explanation=by_explanation
    )
    return Finding(Detection(f"G{mid}", "slow", "It is slow.", ()), prediction, None)


def notes(*findings: Finding) -> list[tuple[str, ...]]:
    return [finding.prediction.notes for finding in mark_contested(findings)]


def test_of_what_is_first_by_both_nothing_is_said() -> None:
    assert notes(finding_of(2.0, 1.5), finding_of(1.2, 1.4)) == [(), ()]
    assert notes(finding_of(2.0), finding_of(1.5)) == [(), ()]
    assert notes() == []


def test_what_is_first_by_one_alone_says_so_and_keeps_its_price() -> None:
    assert notes(finding_of(2.0, 1.2), finding_of(1.3, 1.5), finding_of(1.1, 1.1)) == [
        (CONTESTED,)
    ] * 2 + [()]
    assert [
        finding.prediction.speedup
        for finding in mark_contested([finding_of(2.0, 1.2), finding_of(1.5)])
    ] == [finding.prediction.speedup for finding in (finding_of(2.0, 1.2), finding_of(1.5))]
    assert notes(finding_of(2.0, 1.2), finding_of(1.5)) == [(CONTESTED,)] * 2


def test_what_has_no_price_is_never_first() -> None:
    unpriced = Finding(Detection("G1", "slow", "It is slow.", ()), Prediction(None, "host"), None)
    assert notes(unpriced, finding_of(1.2, 1.1)) == [(), ()]
