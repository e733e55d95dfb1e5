"""How much of a training's computing its threads may share."""

from dataclasses import replace

import pytest

from gapless.catalogue.examples import cpu
from gapless.catalogue.seen_examples import seen
from gapless.model.study import Study
from gapless.model.tables import Operator
from gapless.study.recorded.shareable import shareable


def study(*operators: tuple[str, int, float]) -> Study:
    """Give a study of steps that are half data; of operators: name, calls, share of the steps."""
    found = seen(cpu(), {"busy.math": 50.0, "idle.data.main": 50.0}).study
    wall = found.account.wall_ns
    made = tuple(
        Operator(name, None, calls, round(share * wall), round(share * wall), None, None)
        for name, calls, share in operators
    )
    return replace(found, tables=replace(found.tables, operators=made))


def test_long_operators_are_shared_and_short_ones_and_python_are_not() -> None:
    found = study(
        ("aten::mm", 1, 0.2), ("aten::add", 10**9, 0.1), ("Optimizer.step#SGD.step", 1, 0.1)
    )
    assert shareable(found) == pytest.approx(0.4)


def test_without_a_window_nothing_is_told() -> None:
    found = study(("aten::mm", 1, 0.2))
    assert shareable(replace(found, account=replace(found.account, steps=0))) is None
