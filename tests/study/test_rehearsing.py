"""The unchanged step of several ranks, made again: how far off it is, and what follows of that."""

from dataclasses import replace
from math import log
from pathlib import Path

import pytest

from gapless.catalogue import ranked
from gapless.catalogue.examples import cpu, ddp, world
from gapless.catalogue.rank_examples import together
from gapless.catalogue.seen_examples import seen, stepped
from gapless.catalogue.seen_parts import operator
from gapless.model.change import Drop, Predicted
from gapless.model.finding import Rehearsal
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.study import Steps
from gapless.study import Options, joint
from gapless.study.joint import Joint
from gapless.study.opening import open_study
from gapless.study.rehearsing import Rehearsed, rehearse

DATA = Path(__file__).parents[1] / "data"
TWO = cpu(ddp(), world(ranks=2))
SLOW, FAST = {"busy.math": 16}, {"busy.math": 8}
WAITS = {**FAST, "comm.straggler_wait": 8}
STEADY = together(TWO, WAITS, SLOW)
EVENED = Drop((ranked.LAST,))


def found(of: Seen) -> Rehearsal:
    return rehearse(of).rehearsal


def of_ranks(**changes: float) -> Seen:
    """Give ranks that are alike, with 2,000 traced operators a step, and steps unprofiled."""
    leaves = {"busy.math": 10, "comm.exposed": 6}
    one = together(TWO, leaves, leaves, parts=(operator("aten::add", calls=4000, host_ms=6),))
    steps = Steps(20, 0, round(changes["window_ms"] * 1e6), 0, 0, "gapless:step", (), None)
    plain = round(changes["plain_ms"] * 1e6)
    made = stepped(one, median_ns=plain, mean_ns=plain)
    recorded = made.study.recorded
    assert recorded is not None
    assert recorded.account is not None
    wall = plain * (recorded.account.account.steps or 0)
    account = replace(recorded.account.account, wall_ns=wall)
    recorded = replace(recorded, account=replace(recorded.account, account=account))
    return replace(made, study=replace(made.study, steps=steps, recorded=recorded))


def test_steps_of_which_one_rank_decides_each_are_made_again_exactly() -> None:
    assert found(STEADY).imputed == pytest.approx(0.0)
    assert found(STEADY).refused is None


def test_ranks_whose_long_steps_come_together_are_not_made_again() -> None:
    """Drawn independently, the longer of two steps is 14 on average; together they are 12."""
    alike = found(together(TWO, [SLOW, FAST], [SLOW, FAST]))
    assert alike.imputed == pytest.approx(14 / 12 - 1)
    assert alike.refused is not None
    assert "the step is +16.7% off" in alike.refused


def test_ranks_whose_long_steps_come_in_turn_are_not_made_again() -> None:
    turns = together(TWO, [SLOW, WAITS], [WAITS, SLOW])
    assert found(turns).imputed == pytest.approx(14 / 16 - 1)
    assert Joint(turns, "why", hosts=True).play([EVENED]).refused == found(turns).refused


def test_of_ranks_that_are_not_made_again_a_loader_is_no_sure_gain() -> None:
    turns = Joint(together(TWO, [SLOW, WAITS], [WAITS, SLOW]), "why", hosts=True)
    fed = Predicted(Interval(1.2, 1.4, 1.6), "feed")
    assert turns.capped(fed).speedup == Interval(1.0, 1.4, 1.6)


def test_few_steps_may_be_off_by_chance() -> None:
    """Of ten steps three are short on both ranks, and so were 1.5, if they were independent."""
    long, short = {"busy.math": 20}, {"busy.math": 12}
    waits = {**short, "comm.straggler_wait": 8}
    few = found(together(TWO, [short, long, waits, long], [short, long, long, long]))
    assert few.imputed == pytest.approx(18.8 / 17.6 - 1)
    assert few.refused is None


def test_waits_in_turn_within_a_step_are_imputed_by_their_median() -> None:
    turn = {**FAST, "comm.straggler_wait": 2}
    rare = {**FAST, "comm.straggler_wait": 7}
    usual = found(together(TWO, turn, turn))
    assert usual.imputed == pytest.approx(0.0)
    one = found(together(TWO, [turn] * 4 + [rare], [turn] * 4 + [rare]))
    assert one.imputed == pytest.approx(10 / 11 - 1)


def test_waits_for_nobody_known_explain_nothing() -> None:
    wait = {**FAST, "comm.wait_estimated": 8}
    unknown = found(together(TWO, wait, SLOW))
    assert unknown.unexplained == pytest.approx(0.25)
    assert unknown.refused == "for which rank others wait is not known of 25% of the step"


def test_one_rank_alone_is_not_made_again() -> None:
    alone = found(seen(TWO, {"busy.math": 12}))
    assert (alone.windows, alone.imputed) == (0, None)
    assert alone.refused is not None
    assert "one rank alone" in alone.refused
    assert Joint(seen(TWO, {}), "why", hosts=True).rehearsal is None


# ── Steps that no profiler saw ──────────────────────────────────────────────────────────────────


def test_what_tracing_cost_is_taken_off_before_plain_steps_are_compared() -> None:
    off = found(of_ranks(window_ms=16, plain_ms=14))
    assert off.unprofiled == pytest.approx(0.0, abs=1e-3)
    assert off.alpha_ns == pytest.approx(1000.0)


def test_far_from_plain_steps_intervals_are_wider(monkeypatch: pytest.MonkeyPatch) -> None:
    near, off = of_ranks(window_ms=16, plain_ms=14), of_ranks(window_ms=16, plain_ms=18)
    assert found(off).unprofiled == pytest.approx(15 / 18 - 1, abs=1e-3)
    assert [rehearse(one).off for one in (near, off)] == [0.0, found(off).unprofiled]
    wide = Joint(off, "why", hosts=True).play([Drop(("busy.",))]).speedup
    once = Rehearsed(found(off))

    def not_wide(_: Seen) -> Rehearsed:
        return once

    monkeypatch.setattr(joint, "rehearse", not_wide)
    usual = Joint(off, "why", hosts=True).play([Drop(("busy.",))]).speedup
    assert wide is not None
    assert usual is not None
    assert wide.mid == usual.mid
    more = 2 * (1 - 15 / 18)  # twice what it is off; no half is more than doubled
    for far, near_by in ((wide.high, usual.high), (wide.low, usual.low)):
        half = abs(log(near_by / usual.mid))
        assert abs(log(far / wide.mid)) == pytest.approx(min(2 * half, half + more), rel=1e-3)


def test_farther_from_plain_steps_nothing_is_predicted() -> None:
    far = of_ranks(window_ms=16, plain_ms=60)
    assert found(far).refused is not None
    assert "off those that no profiler saw" in (found(far).refused or "")
    assert Joint(far, "why", hosts=True).play([EVENED]).refused == found(far).refused


def test_of_devices_less_is_allowed() -> None:
    off = of_ranks(window_ms=16, plain_ms=24)
    assert found(off).refused is None
    recorded = off.study.recorded
    assert recorded is not None
    assert recorded.account is not None
    on_gpu = replace(recorded, account=replace(recorded.account, on_device=True))
    of = replace(off, study=replace(off.study, recorded=on_gpu))
    assert found(of).unprofiled == pytest.approx(16 / 24 - 1, abs=1e-3)
    assert found(of).refused is not None


def test_two_real_ranks_are_made_again_within_the_bar() -> None:
    paths = [DATA / f"two_ranks.rank{rank}.json.gz" for rank in (0, 1)]
    diagnosis = open_study(paths, Options(cache=False)).diagnosis
    assert diagnosis is not None
    rehearsal = diagnosis.rehearsal
    assert rehearsal is not None
    assert rehearsal.refused is None
    assert rehearsal.windows == 2
    assert rehearsal.imputed is not None
    assert 0 < abs(rehearsal.imputed) < 0.02
    assert rehearsal.unprofiled is None


# ── Steps that ranks made together ──────────────────────────────────────────────────────────────


def test_steps_that_one_rank_alone_shows_are_left_out() -> None:
    rows = STEADY.study.account.rows
    late = [one for one in rows if one.row.rank == 0]
    end = max(one.row.end for one in late)
    more = [
        replace(one, row=replace(one.row, start=one.row.start + end, end=one.row.end + end))
        for one in late
    ]
    account = replace(STEADY.study.account, rows=(*more, *rows))
    of = replace(STEADY, study=replace(STEADY.study, account=account))
    assert [one.rows for one in ranked.ranks_of(of)] == [
        one.rows for one in ranked.ranks_of(STEADY)
    ]


def test_without_a_common_clock_all_steps_count() -> None:
    rows = tuple(
        replace(one, row=replace(one.row, start=one.row.start + 10**12, end=one.row.end + 10**12))
        if one.row.rank
        else one
        for one in STEADY.study.account.rows
    )
    account = replace(STEADY.study.account, rows=rows)
    of = replace(STEADY, study=replace(STEADY.study, account=account))
    assert [len(one.rows) for one in ranked.ranks_of(of)] == [10, 10]
    some = replace(account, rows=rows[1:])
    assert found(replace(of, study=replace(of.study, account=some))).refused is not None
