"""What takes much of the time has a word on the first screen: seen too seldom, or unexplained."""

import io
import re

import pytest
from msgspec.structs import replace

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.examples.evidence import evidence_of, with_steps
from gapless.catalogue.examples.example_facts import evaluation, gpu
from gapless.catalogue.examples.parts import MS
from gapless.catalogue.rules.occasions.evaluation_in_the_way import evaluation_in_the_way
from gapless.model.change import Drop
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Diagnosis
from gapless.model.leaf import LEAVES, group_of
from gapless.model.rhythm import Sighting
from gapless.model.study import Study
from gapless.pricing.ceilings import Ceilings
from gapless.pricing.diagnose import diagnose
from gapless.pricing.price import Prices
from gapless.pricing.simulators.simulator import RunSimulator
from gapless.report.brief import brief_screen
from gapless.report.text.console import pen_for
from tests.study.test_prices import ConstantSimulator

EVALUATION = "idle.io_main.eval"
SEEN = {
    1: "seen once, its period is not known",
    2: "seen twice, its period is not known",
    3: "seen 3 times, its period is not known",
}


def evaluating(share: int, count: int, period: float | None) -> Evidence:
    """Return a run in which evaluations took so many hundredths of the recorded steps' time."""
    leaves = {"busy.math": 100.0 - share, EVALUATION: float(share)}
    run = evidence_of(gpu(evaluation(), evaluation=count), leaves)
    sighting = Sighting(count, 3456 * MS, period, at_start=False)
    spread = 1.0 if period is None else 0.1
    return with_steps(run, sightings={EVALUATION: sighting}, spreads={EVALUATION: spread})


def diagnose_evaluation(evidence: Evidence) -> Diagnosis:
    prices = Prices(evidence, RunSimulator(refusal="nothing is replayed here"), Ceilings())
    return diagnose(prices, [evaluation_in_the_way])


def first_screen(study: Study) -> str:
    stream = io.StringIO()
    pen = pen_for(stream, 100)
    return " ".join(line.plain.strip() for line in brief_screen(study, pen))


def study_of(evidence: Evidence, diagnosis: Diagnosis) -> Study:
    return replace(evidence.study, diagnosis=diagnosis)


@pytest.mark.parametrize("count", sorted(SEEN))
def test_what_was_seen_too_seldom_is_said_with_its_line_its_bound_and_what_to_do(
    count: int,
) -> None:
    evidence = evaluating(25, count, None)
    diagnosis = diagnose_evaluation(evidence)
    assert not diagnosis.findings
    assert diagnosis.outlook is not None
    assert diagnosis.outlook.endswith(f"was {SEEN[count]}: at most 1.33×")
    screen = first_screen(study_of(evidence, diagnosis))
    assert "nothing was found" not in screen
    assert re.search(r"G703 evaluation-in-the-way \w+\.py:\d+ +at most 1\.3× +by hand", screen)
    sentence = f"Evaluation ({SEEN[count]}, 3456.0 ms each) takes 25 % of the recorded steps' time."
    assert sentence in screen
    assert "Evaluate less often, or on fewer batches" in screen
    assert not re.search(r"every \d|1\.33× \[", screen)


def test_three_sightings_with_a_period_are_said_with_it() -> None:
    (finding,) = diagnose_evaluation(evaluating(25, 3, 500.0)).findings
    assert finding.detection.summary.startswith("Evaluation (every 500 steps, 3456.0 ms each)")
    assert finding.prediction.speedup is not None
    assert finding.prediction.speedup.mid == pytest.approx(1 / 0.75, rel=0.01)


def test_what_was_seldom_and_small_needs_no_row() -> None:
    diagnosis = diagnose_evaluation(evaluating(10, 1, None))
    assert (diagnosis.findings, diagnosis.seldom) == ((), ())
    assert len(diagnosis.present) == 1


@pytest.mark.parametrize(
    "leaf", [leaf for leaf in LEAVES if group_of(leaf) not in {"compute", "host", "observer"}]
)
def test_whatever_takes_a_quarter_of_each_step_is_mentioned(leaf: str) -> None:
    evidence = evidence_of(gpu(), {"busy.math": 40, "idle.host.python": 35, leaf: 25})
    prices = Prices(evidence, RunSimulator(refusal="nothing is replayed here"), Ceilings())
    screen = first_screen(study_of(evidence, diagnose(prices, [])))
    sentence = screen.partition("where a step goes")[0]
    assert re.search(r"\b35 % of each step", sentence), sentence
    assert re.search(r"; 25 % (is|goes|of)", sentence), sentence


@rule("G901", "small-cause", since="0.1", figures="")
def small_cause(evidence: Evidence) -> Detection:
    """Recognise a cause of little."""
    del evidence
    return small_cause.detection("A small cause.", Drop(("idle.gc",)))


def test_a_cause_of_little_does_not_hide_that_nothing_is_known_of_the_largest_part() -> None:
    evidence = evidence_of(gpu(), {"busy.math": 40, "idle.data.decode": 50, "idle.gc": 10})
    simulator = ConstantSimulator(Estimate(1.05, 1.06, 1.07))
    diagnosis = diagnose(Prices(evidence, simulator, Ceilings()), [small_cause])
    assert [finding.detection.name for finding in diagnosis.findings] == ["small-cause"]
    assert diagnosis.verdict is not None
    assert diagnosis.verdict.sentence.endswith(
        "; nothing sure was found that could be changed about that"
    )
