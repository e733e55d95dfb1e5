"""Where two explanations of a window disagree about the first cause, that is said."""

from gapless.model.change import Predicted
from gapless.model.finding import Finding, Loss
from gapless.model.interval import Interval
from gapless.study.contested import CONTESTED, contested


def worth(*mids: float) -> Finding:
    each = tuple(Interval(mid * 0.9, mid, mid * 1.1) for mid in mids)
    mid = sum(mids) / len(mids)
    alone = each if len(each) > 1 else ()
    predicted = Predicted(Interval(mid * 0.9, mid, mid * 1.1), "host", each=alone)
    return Finding(Loss(f"G{mid}", "slow", "It is slow.", ()), predicted, None)


def notes(*found: Finding) -> list[tuple[str, ...]]:
    return [one.predicted.notes for one in contested(found)]


def test_of_what_is_first_by_both_nothing_is_said() -> None:
    assert notes(worth(2.0, 1.5), worth(1.2, 1.4)) == [(), ()]
    assert notes(worth(2.0), worth(1.5)) == [(), ()]
    assert notes() == []


def test_what_is_first_by_one_alone_says_so_and_keeps_its_price() -> None:
    assert notes(worth(2.0, 1.2), worth(1.3, 1.5), worth(1.1, 1.1)) == [(CONTESTED,)] * 2 + [()]
    assert [one.predicted.speedup for one in contested([worth(2.0, 1.2), worth(1.5)])] == [
        one.predicted.speedup for one in (worth(2.0, 1.2), worth(1.5))
    ]
    assert notes(worth(2.0, 1.2), worth(1.5)) == [(CONTESTED,)] * 2


def test_what_has_no_price_is_never_first() -> None:
    none = Finding(Loss("G1", "slow", "It is slow.", ()), Predicted(None, "host"), None)
    assert notes(none, worth(1.2, 1.1)) == [(), ()]
