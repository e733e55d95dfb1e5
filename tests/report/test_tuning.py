"""The screen of a tuning: both accounts side by side, in columns that visibly sum."""

from io import StringIO

import pytest
from msgspec.structs import replace

from gapless.model.account import Account
from gapless.report.sections.tuning import print_tuning, tuning_screen
from gapless.report.text.console import pen_for
from gapless.tune.rounds import tune, tuning_of
from tests.tune.fakes import STATE, Training


def account(waiting_ns: int) -> Account:
    groups = {"data": waiting_ns, "compute": 40_000_000, "unknown": 1_000_000, "observer": 0}
    return Account(sum(groups.values()), 10, {}, groups, {}, rows=())


def test_accounts_before_and_after_stand_side_by_side_and_sum() -> None:
    training = Training(lambda _: {"loader": 2.0}, {"loader": 2.0})
    state = tune(STATE, training.bench())
    assert state.proof is not None
    sides = (replace(state.proof.sides[0], account=account(15_000_000)),)
    state = replace(state, proof=replace(state.proof, account=account(150_000_000), sides=sides))
    stream = StringIO()
    print_tuning(state, tuning_of(state), None, stream)
    lines = stream.getvalue().splitlines()
    rows = [line.split() for line in lines if " ms " in line and line.count(" %") == 2]
    cells = [[float(word) for word in row if word[0].isdigit()] for row in rows]
    assert len(cells) == 5
    for column in range(4):
        assert sum(row[column] for row in cells[:-1]) == pytest.approx(cells[-1][column])
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("width", [50, 60, 80, 120])
def test_tries_fit_any_terminal(width: int) -> None:
    training = Training(lambda _: {"loader": 2.0, "foreach": None}, {"loader": 2.0})
    state = tune(STATE, training.bench())
    stream = StringIO()
    lines = [
        line.plain for line in tuning_screen(state, tuning_of(state), None, pen_for(stream, width))
    ]
    assert max(map(len, lines)) <= width
    assert any("2.00× [1.95 … 2.05]" in line for line in lines)
    assert any("not predicted" in line for line in lines)
    assert any("kept" in line and "loader" in line for line in lines) == (width > 60)


def test_nothing_tried_is_told_with_the_reason() -> None:
    state = tune(STATE, Training(lambda _: {}, {}).bench())
    stream = StringIO()
    print_tuning(state, tuning_of(state), None, stream)
    assert "nothing was tried" in stream.getvalue()
    assert "nothing is proposed that may be tried" in stream.getvalue()
    assert "gapless report" in stream.getvalue()
