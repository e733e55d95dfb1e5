"""How much of a training's computing its threads may share."""

import pytest
from msgspec.structs import replace

from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.example_facts import cpu
from gapless.model.study import Study
from gapless.model.tables import Operator
from gapless.recorded.machine.shareable import shareable_share


def study(*operators: tuple[str, int, float]) -> Study:
    """Return a study of steps that are half data; of operators: name, calls, share of the steps."""
    base_study = evidence_of(cpu(), {"busy.math": 50.0, "idle.data.main": 50.0}).study
    wall = base_study.account.wall_ns
    rows = tuple(
        Operator(name, None, calls, round(share * wall), round(share * wall), None, None)
        for name, calls, share in operators
    )
    return replace(base_study, tables=replace(base_study.tables, operators=rows))


def test_long_operators_are_shared_and_short_ones_and_python_are_not() -> None:
    window_study = study(
        ("aten::mm", 1, 0.2), ("aten::add", 10**9, 0.1), ("Optimizer.step#SGD.step", 1, 0.1)
    )
    assert shareable_share(window_study) == pytest.approx(0.4)


def test_without_a_window_nothing_is_told() -> None:
    window_study = study(("aten::mm", 1, 0.2))
    assert (
        shareable_share(replace(window_study, account=replace(window_study.account, steps=0)))
        is None
    )
