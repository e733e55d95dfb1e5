"""Causes whose remedies have to be tried: no price, what is worth having at most, their place."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from gapless.catalogue.examples import gpu
from gapless.catalogue.ruling import Rule
from gapless.catalogue.seen_examples import seen
from gapless.model.change import EXACTLY_NONE, Change, Copied, Hosted, Predicted
from gapless.model.finding import Diagnosis, Loss, Rehearsal
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.report.causes import first_line, harmless_lines, told
from gapless.study.ceilings import Ceilings
from gapless.study.diagnose import diagnose
from gapless.study.price import Prices
from gapless.study.replaying import Silent
from gapless.study.trying import UNKNOWN

pytestmark = pytest.mark.usefixtures("uncalibrated")

RUN = seen(gpu(), {"busy.math": 30, "idle.host.dispatch": 70})


@dataclass(frozen=True)
class Known:
    """Gives so much for launches, and a tenth for copies."""

    most: float
    rehearsal: Rehearsal | None = None

    def play(self, changes: Sequence[Change]) -> Predicted:
        mid = self.most if isinstance(changes[0], Hosted) else 1.1
        return Predicted(Interval(mid * 0.99, mid, mid * 1.01), "host")

    def account(self, changes: Sequence[Change]) -> None:
        del changes  # it plays no traces


def check_launches(seen: Seen) -> Loss | None:
    del seen
    gone = Hosted(("idle.host.",), EXACTLY_NONE)
    return LAUNCHES.loss("Launches.", gone, helps=("compile",), to_try=True)


def check_copies(seen: Seen) -> Loss | None:
    del seen
    return COPIES.loss("Copies.", Copied(pinned=True))


LAUNCHES = Rule("G901", "launches", "0.1", (), "", check_launches)
COPIES = Rule("G902", "copies", "0.1", (), "", check_copies)


def diagnosed(most: float) -> Diagnosis:
    return diagnose(Prices(RUN, Known(most), Ceilings()), (LAUNCHES, COPIES))


def test_what_has_to_be_tried_stands_below_what_has_a_price_and_has_none_itself() -> None:
    found = diagnosed(3.0)
    assert [one.loss.code for one in found.findings] == ["G902", "G901"]
    last = found.findings[1]
    assert (last.predicted.speedup, last.cost_ns) == (None, None)
    assert last.predicted.refused == UNKNOWN
    assert last.predicted.at_most is not None
    assert last.predicted.at_most.mid == pytest.approx(3.0)
    assert told(last).startswith("to be tried: were all of it gone, 3.00× [2.")


def test_the_first_line_says_what_is_to_be_tried() -> None:
    found = diagnose(Prices(RUN, Known(3.0), Ceilings()), (LAUNCHES,))
    assert str(first_line(found)).startswith(
        "cause: Launches (G901 launches); to be tried: were all of it gone, 3.00×"
    )


@pytest.mark.parametrize(
    ("most", "line"),
    [
        (1.5, "launches: seen; to be tried: were all of it gone, 1.50× [1."),
        (0.96, "launches: harmless here: worth "),
    ],
)
def test_it_is_not_named_where_something_else_bounds_the_step(most: float, line: str) -> None:
    found = diagnosed(most)
    assert [one.loss.code for one in found.findings] == ["G902"]
    said = list(harmless_lines(found))
    assert len(said) == 1
    assert said[0].startswith(line)


def test_the_outlook_is_open_only_as_long_as_it_may_be_worth_something() -> None:
    open_, none = (
        diagnose(Prices(RUN, Known(most), Ceilings()), (LAUNCHES,)).outlook for most in (1.5, 0.96)
    )
    assert str(open_).startswith("a cause was seen that could not be priced")
    assert "could not be priced" not in str(none)


def test_where_nothing_can_be_replayed_the_reason_is_kept() -> None:
    found = diagnose(Prices(RUN, Silent("why not"), Ceilings()), (LAUNCHES,))
    assert [one.finding.predicted.refused for one in found.to_try] == ["why not"]
    assert found.to_try[0].finding.predicted.at_most is None
