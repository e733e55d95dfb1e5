"""Lines of the stepping function that are one cause, and those that are several."""

import pytest

from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import evidence_of as stated
from gapless.catalogue.queries.step_lines import find_step_lines
from gapless.model.host_code import CallLine, HostCode, HotLine

_SCRIPT = "/job/train.py"


@pytest.mark.parametrize(
    ("lower", "calls", "places"),
    [
        (41, (), ["train.py:36-41"]),  # a table is made there, and read below
        (46, (), ["train.py:36-46"]),
        (50, (), ["train.py:36", "train.py:50"]),
        (41, (38,), ["train.py:36", "train.py:41"]),
        (41, (41,), ["train.py:36", "train.py:41"]),  # it calls something
        (40, (40,), ["train.py:36-40"]),
    ],
)
def test_lines_are_one_cause_where_nothing_was_sampled_between_them(
    lower: int, calls: tuple[int, ...], places: list[str]
) -> None:
    evidence = stated(
        example_facts.cpu(),
        {"busy.math": 10, "idle.host.python": 10},
        HostCode("python", 0.4, 0.9, _SCRIPT, 36, "fit", None, 0.4, 300),
        CallLine(_SCRIPT, 30, "fit", "torch/_tensor.py", "Tensor.backward", 0.3),
        CallLine(_SCRIPT, 26, "fit", "/job/model.py", "Net.forward", 0.2),
        *(CallLine(_SCRIPT, line, "fit", "torch/optim/adam.py", "__init__", 0.1) for line in calls),
        HotLine("training", _SCRIPT, 36, "fit", 90, 0.3),
        HotLine("training", _SCRIPT, lower, "fit", 60, 0.2),
    )
    assert sorted(line.place for line in find_step_lines(evidence)) == places


@pytest.mark.parametrize(
    ("lower", "places"),
    [
        (39, ["train.py:36-39"]),  # the derivatives are made of line 36, and looked at in line 39
        (34, ["train.py:34-36"]),  # what is below them is the optimizer's step
        (45, ["train.py:36", "train.py:45"]),
    ],
)
def test_derivatives_between_lines_that_train_nothing_go_with_them(
    lower: int, places: list[str]
) -> None:
    mapped = ("torch/_functorch/apis.py", "vmap.<locals>.wrapped")
    evidence = stated(
        example_facts.cpu(),
        {"busy.math": 10, "idle.host.python": 10},
        HostCode("python", 0.4, 0.9, _SCRIPT, 36, "fit", None, 0.4, 300),
        CallLine(_SCRIPT, 26, "fit", "/job/model.py", "Net.forward", 0.2),
        CallLine(_SCRIPT, 30, "fit", "torch/_tensor.py", "Tensor.backward", 0.3),
        CallLine(_SCRIPT, 38, "fit", *mapped, 0.2),
        CallLine(_SCRIPT, 47, "fit", "torch/optim/adam.py", "Adam.step", 0.1),
        HotLine("training", _SCRIPT, 36, "fit", 30, 0.1),
        HotLine("training", _SCRIPT, 38, "fit", 60, 0.2),
        HotLine("training", _SCRIPT, lower, "fit", 30, 0.1),
    )
    assert sorted(line.place for line in find_step_lines(evidence)) == places
