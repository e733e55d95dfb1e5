"""The unchanged step of several ranks, made again: how far off it is, and what follows of that."""

from math import log

import pytest
from msgspec.structs import replace

from gapless.catalogue.examples.evidence import evidence_of, with_steps
from gapless.catalogue.examples.example_facts import cpu, ddp, world
from gapless.catalogue.examples.parts import operator
from gapless.catalogue.examples.ranks import evidence_of_ranks
from gapless.catalogue.queries.ranks import rank_waits
from gapless.catalogue.queries.ranks.rank_steps import STRAGGLER_WAIT
from gapless.model.change import Drop, Prediction
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import ReplayFidelity
from gapless.model.study import Steps
from gapless.pricing.simulators import multi_rank
from gapless.pricing.simulators.multi_rank import JointSimulator
from gapless.pricing.simulators.validation import FidelityCheck, rehearse
from gapless.study import Options
from gapless.study.opening import open_study
from tests.traces import TRACES

TWO_RANKS = cpu(ddp(), world(ranks=2))
SLOW_STEP, FAST_STEP = {"busy.math": 16}, {"busy.math": 8}
WAITS = {**FAST_STEP, "comm.straggler_wait": 8}
STEADY = evidence_of_ranks(TWO_RANKS, WAITS, SLOW_STEP)
EVEN_RANKS = Drop((STRAGGLER_WAIT,))


def fidelity_of(evidence: Evidence) -> ReplayFidelity:
    return rehearse(evidence).fidelity


def of_ranks(**changes: float) -> Evidence:
    """Return ranks that are alike, with 2,000 traced operators a step, and steps unprofiled."""
    leaves = {"busy.math": 10, "comm.exposed": 6}
    traced = evidence_of_ranks(
        TWO_RANKS, leaves, leaves, parts=(operator("aten::add", calls=4000, host_ms=6),)
    )
    steps = Steps(20, 0, round(changes["window_ms"] * 1e6), 0, 0, "gapless:step", (), None)
    plain_ns = round(changes["plain_ms"] * 1e6)
    evidence = with_steps(traced, median_ns=plain_ns, mean_ns=plain_ns)
    recorded = evidence.study.recorded
    assert recorded is not None
    assert recorded.account is not None
    wall = plain_ns * (recorded.account.account.steps or 0)
    account = replace(recorded.account.account, wall_ns=wall)
    recorded = replace(recorded, account=replace(recorded.account, account=account))
    return replace(evidence, study=replace(evidence.study, steps=steps, recorded=recorded))


def test_steps_of_which_one_rank_decides_each_are_made_again_exactly() -> None:
    assert fidelity_of(STEADY).imputed == pytest.approx(0.0)
    assert fidelity_of(STEADY).refused is None


def test_ranks_whose_long_steps_come_together_are_not_made_again() -> None:
    """Drawn independently, the longer of two steps is 14 on average; together they are 12."""
    fidelity = fidelity_of(
        evidence_of_ranks(TWO_RANKS, [SLOW_STEP, FAST_STEP], [SLOW_STEP, FAST_STEP])
    )
    assert fidelity.imputed == pytest.approx(14 / 12 - 1)
    assert fidelity.refused is not None
    assert "the step is +16.7% off" in fidelity.refused


def test_ranks_whose_long_steps_come_in_turn_are_not_made_again() -> None:
    evidence = evidence_of_ranks(TWO_RANKS, [SLOW_STEP, WAITS], [WAITS, SLOW_STEP])
    assert fidelity_of(evidence).imputed == pytest.approx(14 / 16 - 1)
    assert (
        JointSimulator(evidence, "why", hosts=True).play([EVEN_RANKS]).refused
        == fidelity_of(evidence).refused
    )


def test_of_ranks_that_are_not_made_again_a_loader_is_no_sure_gain() -> None:
    simulator = JointSimulator(
        evidence_of_ranks(TWO_RANKS, [SLOW_STEP, WAITS], [WAITS, SLOW_STEP]), "why", hosts=True
    )
    prediction = Prediction(Estimate(1.2, 1.4, 1.6), "feed")
    assert simulator.cap_by_data_wait(prediction).speedup == Estimate(1.0, 1.4, 1.6)


def test_few_steps_may_be_off_by_chance() -> None:
    """Of ten steps three are short on both ranks, and so were 1.5, if they were independent."""
    long, short = {"busy.math": 20}, {"busy.math": 12}
    waits = {**short, "comm.straggler_wait": 8}
    fidelity = fidelity_of(
        evidence_of_ranks(TWO_RANKS, [short, long, waits, long], [short, long, long, long])
    )
    assert fidelity.imputed == pytest.approx(18.8 / 17.6 - 1)
    assert fidelity.refused is None


def test_waits_in_turn_within_a_step_are_imputed_by_their_median() -> None:
    turn = {**FAST_STEP, "comm.straggler_wait": 2}
    rare = {**FAST_STEP, "comm.straggler_wait": 7}
    typical = fidelity_of(evidence_of_ranks(TWO_RANKS, turn, turn))
    assert typical.imputed == pytest.approx(0.0)
    fidelity = fidelity_of(evidence_of_ranks(TWO_RANKS, [turn] * 4 + [rare], [turn] * 4 + [rare]))
    assert fidelity.imputed == pytest.approx(10 / 11 - 1)


def test_waits_for_nobody_known_explain_nothing() -> None:
    wait = {**FAST_STEP, "comm.wait_estimated": 8}
    unknown = fidelity_of(evidence_of_ranks(TWO_RANKS, wait, SLOW_STEP))
    assert unknown.unexplained == pytest.approx(0.25)
    assert unknown.refused == "for 25% of the step it is not known which rank others wait for"


def test_one_rank_alone_is_not_made_again() -> None:
    fidelity = fidelity_of(evidence_of(TWO_RANKS, {"busy.math": 12}))
    assert (fidelity.windows, fidelity.imputed) == (0, None)
    assert fidelity.refused is not None
    assert "only one rank" in fidelity.refused
    assert JointSimulator(evidence_of(TWO_RANKS, {}), "why", hosts=True).fidelity is None


# ── Steps that no profiler saw ──────────────────────────────────────────────────────────────────


def test_what_tracing_cost_is_taken_off_before_plain_steps_are_compared() -> None:
    off = fidelity_of(of_ranks(window_ms=16, plain_ms=14))
    assert off.unprofiled == pytest.approx(0.0, abs=1e-3)
    assert off.alpha_ns == pytest.approx(1000.0)


def test_far_from_plain_steps_intervals_are_wider(monkeypatch: pytest.MonkeyPatch) -> None:
    near, off = of_ranks(window_ms=16, plain_ms=14), of_ranks(window_ms=16, plain_ms=18)
    assert fidelity_of(off).unprofiled == pytest.approx(15 / 18 - 1, abs=1e-3)
    assert [rehearse(evidence).error for evidence in (near, off)] == [
        0.0,
        fidelity_of(off).unprofiled,
    ]
    wide = JointSimulator(off, "why", hosts=True).play([Drop(("busy.",))]).speedup
    check = FidelityCheck(fidelity_of(off))

    def not_wide(_: Evidence) -> FidelityCheck:
        return check

    monkeypatch.setattr(multi_rank, "rehearse", not_wide)
    narrow = JointSimulator(off, "why", hosts=True).play([Drop(("busy.",))]).speedup
    assert wide is not None
    assert narrow is not None
    assert wide.mid == narrow.mid
    extra = 2 * (1 - 15 / 18)  # twice what it is off; no half is more than doubled
    for far, near_by in ((wide.high, narrow.high), (wide.low, narrow.low)):
        half = abs(log(near_by / narrow.mid))
        assert abs(log(far / wide.mid)) == pytest.approx(min(2 * half, half + extra), rel=1e-3)


def test_farther_from_plain_steps_nothing_is_predicted() -> None:
    evidence = of_ranks(window_ms=16, plain_ms=60)
    assert fidelity_of(evidence).refused is not None
    assert "off un-profiled steps" in (fidelity_of(evidence).refused or "")
    assert (
        JointSimulator(evidence, "why", hosts=True).play([EVEN_RANKS]).refused
        == fidelity_of(evidence).refused
    )


def test_of_devices_less_is_allowed() -> None:
    off = of_ranks(window_ms=16, plain_ms=24)
    assert fidelity_of(off).refused is None
    recorded = off.study.recorded
    assert recorded is not None
    assert recorded.account is not None
    on_gpu = replace(recorded, account=replace(recorded.account, on_device=True))
    evidence = replace(off, study=replace(off.study, recorded=on_gpu))
    assert fidelity_of(evidence).unprofiled == pytest.approx(16 / 24 - 1, abs=1e-3)
    assert fidelity_of(evidence).refused is not None


def test_two_real_ranks_are_made_again_within_the_bar() -> None:
    paths = [TRACES[f"two_ranks.rank{rank}"] for rank in (0, 1)]
    diagnosis = open_study(paths, Options(cache=False)).diagnosis
    assert diagnosis is not None
    fidelity = diagnosis.fidelity
    assert fidelity is not None
    assert fidelity.refused is None
    assert fidelity.windows == 2
    assert fidelity.imputed is not None
    assert 0 < abs(fidelity.imputed) < 0.02
    assert fidelity.unprofiled is None


# ── Steps that ranks made together ──────────────────────────────────────────────────────────────


def test_steps_that_one_rank_alone_shows_are_left_out() -> None:
    rows = STEADY.study.account.rows
    rank_rows = [row for row in rows if row.row.rank == 0]
    end = max(row.row.end for row in rank_rows)
    later_rows = [
        replace(row, row=replace(row.row, start=row.row.start + end, end=row.row.end + end))
        for row in rank_rows
    ]
    account = replace(STEADY.study.account, rows=(*later_rows, *rows))
    evidence = replace(STEADY, study=replace(STEADY.study, account=account))
    assert [rank.rows for rank in rank_waits.find_ranks(evidence)] == [
        rank.rows for rank in rank_waits.find_ranks(STEADY)
    ]


def test_without_a_common_clock_all_steps_count() -> None:
    rows = tuple(
        replace(row, row=replace(row.row, start=row.row.start + 10**12, end=row.row.end + 10**12))
        if row.row.rank
        else row
        for row in STEADY.study.account.rows
    )
    account = replace(STEADY.study.account, rows=rows)
    evidence = replace(STEADY, study=replace(STEADY.study, account=account))
    assert [len(rank.rows) for rank in rank_waits.find_ranks(evidence)] == [10, 10]
    partial = replace(account, rows=rows[1:])
    assert (
        fidelity_of(replace(evidence, study=replace(evidence.study, account=partial))).refused
        is not None
    )
