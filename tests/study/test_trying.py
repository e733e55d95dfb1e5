"""Causes whose remedies have to be tried: no price, what is worth having at most, their place."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from gapless.catalogue.effects.occasions import EVALUATION
from gapless.catalogue.examples import gpu
from gapless.catalogue.rules.evaluation_in_the_way import evaluation_in_the_way
from gapless.catalogue.ruling import Rule
from gapless.catalogue.seen_examples import seen, stepped
from gapless.catalogue.seen_parts import MS
from gapless.model.change import EXACTLY_NONE, Change, Copied, Hosted, Predicted
from gapless.model.finding import Diagnosis, Loss, Rehearsal
from gapless.model.interval import Interval
from gapless.model.rhythm import Sighting
from gapless.model.seen import Seen
from gapless.report.causes import first_lines, harmless_lines, told
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
    assert list(first_lines(found))[-1].startswith(
        "cause: G901 launches; to be tried: were all of it gone, 3.00×"
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


def test_where_nothing_can_be_replayed_the_reason_is_kept() -> None:
    found = diagnose(Prices(RUN, Silent("why not"), Ceilings()), (LAUNCHES,))
    (one,) = (*found.findings, *(each.finding for each in found.to_try))
    assert (one.predicted.refused, one.predicted.at_most) == ("why not", None)


def test_an_evaluation_that_was_seen_once_is_no_headline() -> None:
    of = seen(gpu(evaluation=1), {"busy.math": 40, EVALUATION: 60})
    often = Sighting(count=3, each_ns=900 * MS, period=500.0, at_start=False)
    once = replace(often, count=1, period=None, at_start=True)

    def found(known: Sighting) -> Diagnosis:
        spread = 0.2 if known.period else 1.0
        steps = {"sightings": {EVALUATION: known}, "spreads": {EVALUATION: spread}}
        made = Prices(stepped(of, **steps), Silent("not here"), Ceilings())
        return diagnose(made, [evaluation_in_the_way])

    (named,) = found(often).findings
    assert named.loss.summary.startswith("Evaluation (every 500 steps, 900.0 ms each) takes 60")
    assert not found(once).findings
    (aside,) = found(once).present
    (line,) = harmless_lines(found(once))
    assert aside.predicted.speedup is None
    assert "seen once, before the second step: at most 2." in line
