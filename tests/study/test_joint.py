"""Steps that several ranks make together: the slowest decides, and nothing else is a gain."""

import pytest
from msgspec.structs import replace

from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.example_facts import cpu, ddp, world
from gapless.catalogue.examples.ranks import evidence_of_ranks, hot_line, with_rank_lines
from gapless.catalogue.queries.ranks import rank_waits
from gapless.catalogue.queries.ranks.rank_steps import STRAGGLER_WAIT
from gapless.catalogue.rules.ranks.straggling_rank import straggling_rank
from gapless.model.change import Bucket, Change, Drop, HostChange, Merge, Prediction
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.recording import StackCount
from gapless.model.study import Straggler
from gapless.pricing.ceilings import Ceilings
from gapless.pricing.price import Prices, price_changes
from gapless.pricing.simulators.multi_rank import cap_by_joint, is_joint, marked_share
from gapless.pricing.simulators.simulator import build_simulator
from gapless.recorded.training.lines import lines_of_ranks
from tests.study.recording import Log, recording

ZERO = Estimate(0.0, 0.0, 0.0)
EVEN_RANKS = Drop((STRAGGLER_WAIT,))
PYTHON = HostChange(("idle.host.python",), ZERO)
WORLD = (ddp(), world(ranks=2))
TWO_RANKS = cpu(*WORLD)
UNEVEN = evidence_of_ranks(
    TWO_RANKS,
    {"busy.math": 6, "idle.host.python": 2, "comm.straggler_wait": 8},
    {"busy.math": 16},
)


BUCKETS = Bucket(25 << 20, 1 << 20, Estimate(0.1, 0.2, 0.5), Estimate(0.0, 0.2, 0.6))


def test_of_one_rank_alone_no_gain_is_sure() -> None:
    evidence = evidence_of(TWO_RANKS, {"busy.math": 12, "idle.host.python": 4})
    assert is_joint(evidence)
    prediction = build_simulator((), evidence).play((PYTHON,))
    assert prediction.speedup is not None
    assert prediction.speedup.low == 1.0
    assert prediction.speedup.mid == pytest.approx(16 / 12)
    assert "windows show only one rank" in prediction.notes[-1]
    assert build_simulator((), evidence).play((Merge(("Optimizer.step#*",), 1),)).speedup is None


def test_without_a_replay_of_all_ranks_nothing_is_predicted() -> None:
    simulator = build_simulator((), UNEVEN)
    for change in (EVEN_RANKS, PYTHON, BUCKETS):
        prediction = simulator.play((change,))
        assert prediction.speedup is None
        assert prediction.refused == "there is no window with steps"
    assert simulator.account([EVEN_RANKS]) is None


LOADER_PREDICTION = Prediction(Estimate(1.2, 1.4, 1.6), "feed")


def test_a_loader_gives_no_more_than_its_waits_on_the_rank_that_decides() -> None:
    capped = cap_by_joint(LOADER_PREDICTION, Estimate(1.1, 1.15, 1.3))
    assert capped.speedup == Estimate(1.15, 1.15, 1.3)
    assert cap_by_joint(LOADER_PREDICTION, Estimate(1.5, 2.0, 2.5)) == LOADER_PREDICTION


def test_where_ranks_are_not_replayed_a_loader_is_no_sure_gain() -> None:
    assert cap_by_joint(LOADER_PREDICTION, None).speedup == Estimate(1.0, 1.4, 1.6)
    refusal = Prediction(None, "feed", refused="no")
    assert cap_by_joint(refusal, None) == refusal


def test_a_run_of_one_rank_is_not_joint() -> None:
    assert not is_joint(evidence_of(cpu(), {"busy.math": 12}))
    assert not is_joint(evidence_of(None, {"busy.math": 12}))


# ── What lies outside of windows ────────────────────────────────────────────────────────────────

SAVING = "idle.io_main.checkpoint"


def price_jointly(evidence: Evidence, *changes: Change) -> Prediction:
    return price_changes(Prices(evidence, build_simulator((), evidence), Ceilings()), changes)


def test_what_one_rank_saves_all_ranks_wait_for() -> None:
    evidence = evidence_of_ranks(
        TWO_RANKS, {"busy.math": 12, SAVING: 4}, {"busy.math": 12, "comm.straggler_wait": 4}
    )
    share = marked_share(evidence, SAVING)
    assert share == Estimate(0.25, 0.25, 0.25)
    speedup = price_jointly(evidence, Drop((SAVING,))).speedup
    assert speedup is not None
    assert speedup.mid == pytest.approx(16 / 12)


def test_what_a_rank_saves_while_it_would_wait_is_no_sure_loss() -> None:
    idle = {"busy.math": 6, SAVING: 4, "comm.straggler_wait": 6}
    share = marked_share(evidence_of_ranks(TWO_RANKS, idle, {"busy.math": 16}), SAVING)
    assert share == Estimate(0.0, 0.25, 0.25)
    share_of_both = marked_share(
        evidence_of_ranks(TWO_RANKS, idle, {"busy.math": 14, SAVING: 2}), SAVING
    )
    assert share_of_both == Estimate(0.125, 0.25, 0.25)


def test_of_one_rank_the_account_tells() -> None:
    assert marked_share(evidence_of(cpu(), {"busy.math": 12, SAVING: 4}), SAVING) is None
    assert marked_share(evidence_of(None, {"busy.math": 12, SAVING: 4}), SAVING) is None


# ── What each rank has ──────────────────────────────────────────────────────────────────────────


def test_what_each_rank_has_at_least_is_the_trainings() -> None:
    assert rank_waits.min_rank_ns(UNEVEN, "busy.math") == pytest.approx(6e6)
    assert rank_waits.min_rank_ns(UNEVEN, "idle.host.python") == 0
    assert rank_waits.min_rank_ns(UNEVEN, "idle.gc") == 0
    assert rank_waits.min_rank_ns(
        evidence_of(cpu(), {"busy.math": 12}), "busy.math"
    ) == pytest.approx(12e6)


def test_windows_of_one_rank_do_not_tell_of_others() -> None:
    with pytest.raises(NotObservedError, match="of 2 ranks windows tell of no more than one"):
        rank_waits.require_ranks(evidence_of(TWO_RANKS, {"busy.math": 12}))
    assert rank_waits.require_ranks(evidence_of(cpu(), {"busy.math": 12})) == ()
    assert [rank_rows.rank for rank_rows in rank_waits.require_ranks(UNEVEN)] == [0, 1]


@pytest.mark.parametrize(("late", "n_detections"), [(1, 1), (0, 0)])
def test_a_rank_is_slow_for_those_who_wait_for_it(late: int, n_detections: int) -> None:
    major, minor = Straggler(late, 8_000_000, 10), Straggler(1 - late, 1_000_000, 3)
    evidence = replace(UNEVEN, study=replace(UNEVEN.study, stragglers=(minor, major)))
    assert len(straggling_rank(evidence)) == n_detections


def test_the_line_of_a_rank_is_where_it_stands_oftener_than_others() -> None:
    evidence = with_rank_lines(
        UNEVEN, (hot_line(77, 0.9), hot_line(82, 0.1)), (hot_line(77, 0.4), hot_line(79, 0.6))
    )
    surplus_line = rank_waits.find_surplus_line(evidence, 1)
    assert surplus_line is not None
    assert surplus_line.line == 79
    assert (
        rank_waits.find_surplus_line(
            with_rank_lines(UNEVEN, (hot_line(77, 0.9),), (hot_line(77, 0.9),)), 1
        )
        is None
    )
    assert rank_waits.find_surplus_line(with_rank_lines(UNEVEN, (hot_line(77, 0.9),)), 0) is None
    assert rank_waits.find_surplus_line(UNEVEN, 1) is None


def test_lines_are_told_by_rank_where_there_are_several() -> None:
    logs = [Log(rank=rank, pid=10 + rank, world=2, end=2000) for rank in (0, 1)]
    processes = [
        replace(process, stacks=(StackCount("training", (("train.py", 7 + index, "train"),), 3),))
        for index, process in enumerate(recording(*logs).processes)
    ]
    lines_by_rank = lines_of_ranks(processes)
    assert {rank: [line.line for line in lines] for rank, lines in lines_by_rank.items()} == {
        0: [7],
        1: [8],
    }
    assert lines_of_ranks(processes[:1]) == {}


# ── Steps that ranks made together ──────────────────────────────────────────────────────────────


def test_steps_that_one_rank_alone_shows_are_left_out() -> None:
    rows = UNEVEN.study.account.rows
    rank_rows = [row for row in rows if row.row.rank == 0]
    end = max(row.row.end for row in rank_rows)
    later_rows = [
        replace(row, row=replace(row.row, start=row.row.start + end, end=row.row.end + end))
        for row in rank_rows
    ]
    account = replace(UNEVEN.study.account, rows=(*later_rows, *rows))
    evidence = replace(UNEVEN, study=replace(UNEVEN.study, account=account))
    assert [rank.rows for rank in rank_waits.find_ranks(evidence)] == [
        rank.rows for rank in rank_waits.find_ranks(UNEVEN)
    ]


def test_without_a_common_clock_all_steps_count() -> None:
    rows = tuple(
        replace(row, row=replace(row.row, start=row.row.start + 10**12, end=row.row.end + 10**12))
        if row.row.rank
        else row
        for row in UNEVEN.study.account.rows
    )
    account = replace(UNEVEN.study.account, rows=rows)
    evidence = replace(UNEVEN, study=replace(UNEVEN.study, account=account))
    assert [len(rank.rows) for rank in rank_waits.find_ranks(evidence)] == [10, 10]
