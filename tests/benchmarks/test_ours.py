"""What gapless says, as an answer: causes in its own order, with a price or to be tried."""

from math import exp
from pathlib import Path

import pytest

from benchmarks.judging.answers import Answer
from benchmarks.judging.ours import CheckedAnswer, ask_gapless, residuals
from benchmarks.judging.records import FAULTY, MenuLine, Record
from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.example_facts import gpu, loader
from gapless.catalogue.examples.parts import example_use, example_workers
from gapless.model.change import Prediction
from gapless.model.estimate import Estimate
from gapless.pricing.ceilings import Ceilings
from gapless.pricing.price import Prices
from gapless.pricing.simulators.simulator import RunSimulator

RECORD = Record("made", "made", FAULTY, (), Path("none"))


@pytest.mark.parametrize(
    ("decoding", "order"),
    [(50, ["more-workers", "collector"]), (30, ["collector", "more-workers"])],
)
def test_causes_with_and_without_a_price_stand_in_the_order_of_the_findings(
    decoding: int, order: list[str]
) -> None:
    run = evidence_of(
        gpu(loader(), collections=40),
        {"busy.math": 90 - decoding, "idle.data.decode": decoding, "idle.gc": 10},
        example_use(loader(), {"decode": float(decoding)}, example_workers(0, {"decode": 0.75})),
    )
    checked = ask_gapless(Prices(run, RunSimulator(refusal="no window"), Ceilings()), RECORD)
    named = checked.answer.named
    assert [recommendation.fix for recommendation in named] == order
    named_by = {recommendation.fix: recommendation for recommendation in named}
    assert named_by["collector"].speedup is not None
    workers = named_by["more-workers"]
    assert workers.speedup is None
    assert "workers" in workers.causes
    assert workers.says.startswith("G101 loader-in-training-process, to be tried:")
    assert workers.value == 2.0


@pytest.mark.parametrize(("noise", "scores"), [(0.0, [2.0]), (0.03, [2.0]), (0.05, [])])
def test_a_rougher_measurement_than_the_prediction_does_not_judge_it(
    noise: float, scores: list[float]
) -> None:
    foretold = Estimate(exp(0.1 - 0.04), exp(0.1), exp(0.1 + 0.04))
    measured = Estimate(exp(0.18 - noise), exp(0.18), exp(0.18 + noise))
    line = MenuLine("fused", "fused", (), (), "host", False, measured, 0.01)  # noqa: FBT003
    record = Record("made", "made", FAULTY, (line,), Path("none"))
    study = evidence_of(gpu(), {"busy.math": 40}).study
    checked = CheckedAnswer(Answer(), study, {"fused": Prediction(foretold, "host")})
    assert [residual.score for residual in residuals(checked, record)] == pytest.approx(
        scores, abs=1e-3
    )
