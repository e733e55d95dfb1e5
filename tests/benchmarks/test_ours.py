"""What gapless says, as an answer: causes in its own order, with a price or to be tried."""

from math import exp
from pathlib import Path

import pytest

from benchmarks.judging.answers import Answer
from benchmarks.judging.ours import Said, residuals, says
from benchmarks.judging.records import FAULTY, Line, Record
from gapless.catalogue.examples import gpu, loader
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import made_by, used
from gapless.model.change import Predicted
from gapless.model.interval import Interval
from gapless.study.ceilings import Ceilings
from gapless.study.price import Prices
from gapless.study.replaying import Silent

RECORD = Record("made", "made", FAULTY, (), Path("none"))


@pytest.mark.parametrize(
    ("decoding", "order"),
    [(50, ["more-workers", "collector"]), (30, ["collector", "more-workers"])],
)
def test_causes_with_and_without_a_price_stand_in_the_order_of_the_findings(
    decoding: int, order: list[str]
) -> None:
    run = seen(
        gpu(loader(), collections=40),
        {"busy.math": 90 - decoding, "idle.data.decode": decoding, "idle.gc": 10},
        used(loader(), {"decode": float(decoding)}, made_by(0, {"decode": 0.75})),
    )
    said = says(Prices(run, Silent("no window"), Ceilings()), RECORD)
    named = said.answer.named
    assert [one.fix for one in named] == order
    named_by = {one.fix: one for one in named}
    assert named_by["collector"].speedup is not None
    workers = named_by["more-workers"]
    assert workers.speedup is None
    assert "workers" in workers.causes
    assert workers.says.startswith("G101 loader-in-training-process, to be tried:")
    assert workers.value == 2.0


@pytest.mark.parametrize(("noise", "told"), [(0.0, [2.0]), (0.03, [2.0]), (0.05, [])])
def test_a_rougher_measurement_than_the_prediction_does_not_judge_it(
    noise: float, told: list[float]
) -> None:
    foretold = Interval(exp(0.1 - 0.04), exp(0.1), exp(0.1 + 0.04))
    measured = Interval(exp(0.18 - noise), exp(0.18), exp(0.18 + noise))
    line = Line("fused", "fused", (), (), "host", False, measured, 0.01)  # noqa: FBT003
    record = Record("made", "made", FAULTY, (line,), Path("none"))
    study = seen(gpu(), {"busy.math": 40}).study
    said = Said(Answer(), study, {"fused": Predicted(foretold, "host")})
    assert [one.score for one in residuals(said, record)] == pytest.approx(told, abs=1e-3)
