"""What each rank had to compute in a step: known to be the same in all only where calls fit it."""

from types import SimpleNamespace
from typing import Any

import pytest

from gapless.capture.merge import sum_rank_work
from gapless.model.work import RankWork, Work

EVEN = RankWork(0, 2, is_steady=True)


def window(rank: int, calls: int, steps: int = 2) -> Any:  # noqa: ANN401
    product = Work("aten::mm", "[8, 8] [8, 8]", "fp32", "busy.math", None, calls, 0, 9, calls, 1)
    unknown = Work("aten::relu", None, None, "busy.other", None, 7, 0, 9, None, None)
    account, facts = SimpleNamespace(steps=steps), SimpleNamespace(rank=rank)
    return SimpleNamespace(facts=facts, account=account, work=(product, unknown))


@pytest.mark.parametrize(
    ("windows", "is_steady"),
    [((12,), True), ((11,), False), ((12, 12), True), ((12, 120), False)],
)
def test_steps_are_alike_where_calls_fit_all_of_them(
    windows: tuple[int, ...], is_steady: bool
) -> None:
    summaries = [window(0, 4), *(window(1, calls) for calls in windows)]
    mean = sum(windows) / len(windows) / 2
    assert sum_rank_work(summaries) == (EVEN, RankWork(1, mean, is_steady))


def test_one_step_and_calls_without_inputs_show_no_steps_alike() -> None:
    single, blank = window(1, 12, steps=1), window(1, 0)
    blank.work = blank.work[1:]
    for summary in (single, blank):
        assert not sum_rank_work([window(0, 4), summary])[1].is_steady


def test_of_one_rank_nothing_is_compared() -> None:
    assert sum_rank_work([window(0, 4), window(0, 4)]) == ()
