"""Averages of weights, tensor by tensor: what goes with the loop."""

import pytest

from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.parts import operator
from gapless.catalogue.queries.between_operators import PYTHON
from gapless.catalogue.queries.parameters import averages
from gapless.catalogue.rules.host.average_loop import average_loop
from gapless.model.change import HostChange
from gapless.model.finding import Detection
from gapless.model.host_code import HostCode
from gapless.model.study import Site


def detect(code: HostCode) -> Detection:
    evidence = evidence_of(
        example_facts.cpu(),
        {"busy.math": 20, "busy.elementwise": 10, PYTHON: 10},
        operator("aten::_fused_adamw_", calls=1, host_ms=2),
        operator(averages.MUL, calls=350, host_ms=2.4),
        operator(averages.ADD, calls=200, host_ms=1.3),
        Site(averages.MUL, "train.py", 20, "update", 2_200_000, 322),
        Site(averages.ADD, "train.py", 20, "update", 1_000_000, 161),
        code,
    )
    (detection,) = average_loop(evidence)
    assert isinstance(detection, Detection)
    return detection


@pytest.mark.parametrize(
    ("share", "kept"),
    [(0.1, (0.6, 0.7, 0.8)), (0.5, (0.0, 0.25, 0.5))],
    ids=["in part", "more than all"],
)
def test_the_python_that_was_sampled_in_the_function_goes(
    share: float, kept: tuple[float, float, float]
) -> None:
    code = HostCode("python", share, 1.0, "/a/train.py", 24, "Average.update")
    (change,) = (part for part in detect(code).changes if isinstance(part, HostChange))
    assert change.leaves == (PYTHON,)
    factor = change.factor
    assert (factor.low, factor.mid, factor.high) == pytest.approx(kept)


def test_python_of_another_function_stays() -> None:
    code = HostCode("python", 0.1, 1.0, "/a/train.py", 24, "Loader.update_all")
    assert not any(isinstance(part, HostChange) for part in detect(code).changes)


@pytest.mark.parametrize(("rounds", "count"), [(1, 1), (40, 0)], ids=["average", "other work"])
def test_what_multiplies_and_adds_far_more_often_than_there_are_parameters_is_no_average(
    rounds: int, count: int
) -> None:
    evidence = evidence_of(
        example_facts.cpu(),
        {"busy.elementwise": 20, PYTHON: 10},
        operator(averages.MUL, calls=2 * 40, host_ms=2),
        operator(averages.ADD, calls=40, host_ms=1),
        Site(averages.MUL, "train.py", 20, "update", 2_000_000, 2 * rounds * 30),
        Site(averages.ADD, "train.py", 20, "update", 1_000_000, rounds * 30),
    )
    assert len(averages.find_averaging(evidence, 30)) == count
