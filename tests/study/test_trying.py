"""Causes whose remedies have to be tried: no price, what is worth having at most, their place."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from gapless.catalogue.declare.rule import Rule
from gapless.catalogue.effects.occasions import EVALUATION
from gapless.catalogue.examples.evidence import evidence_of, with_steps
from gapless.catalogue.examples.example_facts import gpu
from gapless.catalogue.examples.parts import MS
from gapless.catalogue.rules.occasions.evaluation_in_the_way import evaluation_in_the_way
from gapless.model.change import ZERO_FACTOR, Change, CopyChange, HostChange, Prediction
from gapless.model.edit import FixRequest
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Diagnosis
from gapless.model.rhythm import Sighting
from gapless.pricing.ceilings import Ceilings
from gapless.pricing.diagnose import diagnose
from gapless.pricing.price import Prices
from gapless.pricing.simulators.simulator import RunSimulator
from gapless.pricing.upper_bounds import UNKNOWN
from gapless.report.sections.causes import cause_lines, first_lines, harmless_lines, worth
from tests.study.stand_in import StandIn

pytestmark = pytest.mark.usefixtures("uncalibrated")

RUN = evidence_of(gpu(), {"busy.math": 30, "idle.host.dispatch": 70})


class LaunchSimulator(StandIn, frozen=True):
    """Gives so much for launches, and a tenth for copies."""

    launch_gain: float

    def play(self, changes: Sequence[Change]) -> Prediction:
        mid = self.launch_gain if isinstance(changes[0], HostChange) else 1.1
        return Prediction(Estimate(mid * 0.99, mid, mid * 1.01), "host")


def check_launches(evidence: Evidence) -> Detection | None:
    del evidence
    change = HostChange(("idle.host.",), ZERO_FACTOR)
    return LAUNCHES.detection("Launches.", change, helps=(FixRequest("compile"),), to_try=True)


def check_copies(evidence: Evidence) -> Detection | None:
    del evidence
    return COPIES.detection("Copies.", CopyChange(pinned=True))


LAUNCHES = Rule("G901", "launches", "0.1", "", "", check_launches)
COPIES = Rule("G902", "copies", "0.1", "", "", check_copies)


def diagnose_gain(launch_gain: float) -> Diagnosis:
    return diagnose(Prices(RUN, LaunchSimulator(launch_gain), Ceilings()), (LAUNCHES, COPIES))


def test_what_has_to_be_tried_stands_below_what_has_a_price_and_has_none_itself() -> None:
    diagnosis = diagnose_gain(3.0)
    assert [finding.detection.code for finding in diagnosis.findings] == ["G902", "G901"]
    launch_finding = diagnosis.findings[1]
    assert (launch_finding.prediction.speedup, launch_finding.cost_ns) == (None, None)
    assert launch_finding.prediction.refused == UNKNOWN
    assert launch_finding.prediction.at_most is not None
    assert launch_finding.prediction.at_most.mid == pytest.approx(3.0)
    assert worth(launch_finding).startswith("to be tried: if all of it were gone, 3.00× [2.")


def test_the_first_line_says_what_is_to_be_tried() -> None:
    diagnosis = diagnose(Prices(RUN, LaunchSimulator(3.0), Ceilings()), (LAUNCHES,))
    assert list(first_lines(diagnosis))[-1].startswith(
        "cause: G901 launches; to be tried: if all of it were gone, 3.00×"
    )


@pytest.mark.parametrize(
    ("launch_gain", "line"),
    [
        (1.5, "launches: seen; to be tried: if all of it were gone, 1.50× [1."),
        (0.96, "launches: harmless here: worth "),
    ],
)
def test_it_is_not_named_where_something_else_bounds_the_step(
    launch_gain: float, line: str
) -> None:
    diagnosis = diagnose_gain(launch_gain)
    assert [finding.detection.code for finding in diagnosis.findings] == ["G902"]
    lines = list(harmless_lines(diagnosis))
    assert len(lines) == 1
    assert lines[0].startswith(line)


def test_where_nothing_can_be_replayed_the_reason_is_kept() -> None:
    diagnosis = diagnose(Prices(RUN, RunSimulator(refusal="why not"), Ceilings()), (LAUNCHES,))
    (finding,) = (*diagnosis.findings, *(candidate.finding for candidate in diagnosis.to_try))
    assert (finding.prediction.refused, finding.prediction.at_most) == ("why not", None)


def test_an_evaluation_that_was_seen_once_is_no_headline() -> None:
    evidence = evidence_of(gpu(evaluation=1), {"busy.math": 40, EVALUATION: 60})
    periodic = Sighting(count=3, each_ns=900 * MS, period=500.0, at_start=False)
    single = replace(periodic, count=1, period=None, at_start=True)

    def diagnose_with(sighting: Sighting) -> Diagnosis:
        spread = 0.2 if sighting.period else 1.0
        steps = {"sightings": {EVALUATION: sighting}, "spreads": {EVALUATION: spread}}
        prices = Prices(with_steps(evidence, **steps), RunSimulator(refusal="not here"), Ceilings())
        return diagnose(prices, [evaluation_in_the_way])

    (headline,) = diagnose_with(periodic).findings
    assert headline.detection.summary.startswith(
        "Evaluation (every 500 steps, 900.0 ms each) takes 60"
    )
    assert not diagnose_with(single).findings
    (aside,) = diagnose_with(single).present
    assert not list(harmless_lines(diagnose_with(single)))  # it takes too much of the recording
    line, sentence, advice = cause_lines(diagnose_with(single))
    assert sentence.strip().startswith("Evaluation (seen once, before the second step, its period")
    assert sentence.endswith("takes 60 % of the recorded steps' time")
    assert advice.strip().startswith("Evaluate less often, or on fewer batches")
    assert aside.prediction.speedup is None
    assert "seen once, before the second step, its period is not known: at most 2." in line
