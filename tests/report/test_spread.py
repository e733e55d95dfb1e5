"""Many ranks in a few lines: quantiles, who stands out, a map."""

from gapless.report.ranks.spread import StepMakeup, spread_lines


def _lines(work_ms: list[float]) -> list[str]:
    members = [
        StepMakeup(f"rank {rank}", 10e6, {"compute": 2e6, "waiting for data": work * 1e6})
        for rank, work in enumerate(work_ms)
    ]
    return list(spread_lines(members, "ranks"))


def test_a_thousand_ranks_are_a_screen() -> None:
    lines = _lines([1 + 0.01 * (rank % 7) + 4 * (rank == 700) for rank in range(1024)])
    assert len(lines) == 3 + 22  # of 48 ranks
    assert lines[0].startswith("1,024 ranks: a step takes 10.00 ms (median; p10 10.00, p90 10.00)")
    assert lines[1] == "rank 700 stands out: waiting for data 5.000 ms a step, others 1.030"
    assert lines[3 + 700 // 48] == f"rank 672  … {'▄' * 28}█{'▄' * 19}"


def test_who_differs_by_little_does_not_stand_out() -> None:
    assert not any("stands out" in line for line in _lines([1.0] * 20 + [1.4]))
    assert sum("stands out" in line for line in _lines([1.0] * 40 + [2.0] * 7)) == 5
    assert "2 more stand out, by less" in _lines([1.0] * 40 + [2.0] * 7)


def test_ranks_that_only_wait_have_no_map() -> None:
    members = [StepMakeup(f"rank {rank}", 1e6, {}) for rank in range(9)]
    assert len(list(spread_lines(members, "ranks"))) == 1
