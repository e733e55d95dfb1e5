"""Steps that several ranks make together: the slowest decides, and nothing else is a gain."""

from dataclasses import replace

import pytest

from gapless.catalogue import ranked
from gapless.catalogue.examples import cpu, ddp, gpu, world
from gapless.catalogue.rank_examples import line, standing, together
from gapless.catalogue.rules.straggling_rank import straggling_rank
from gapless.catalogue.ruling import NotSeenError
from gapless.catalogue.seen_examples import seen, stepped
from gapless.catalogue.seen_parts import operator
from gapless.model.change import Change, Drop, Hosted, Merge, Omit, Predicted, Scale
from gapless.model.interval import Interval
from gapless.model.recording import StackCount
from gapless.model.seen import Seen
from gapless.model.study import Steps, Straggler
from gapless.study.ceilings import Ceilings
from gapless.study.joint import Joint, is_joint, marked
from gapless.study.playing import player_of
from gapless.study.price import Prices, price
from gapless.study.recorded.lines import lines_of_ranks
from gapless.study.tracing import eased, tracing
from tests.study.recording import Log, recording

GONE = Interval(0.0, 0.0, 0.0)
EVENED = Drop((ranked.LAST,))
PYTHON = Hosted(("idle.host.python",), GONE)
WORLD = (ddp(), world(ranks=2))
TWO = cpu(*WORLD)
SLOW = together(
    TWO,
    {"busy.math": 6, "idle.host.python": 2, "comm.straggler_wait": 8},
    {"busy.math": 16},
)


def played(of: Seen, *changes: Change, hosts: bool = True) -> Predicted:
    return Joint(of, "not replayed", hosts=hosts).play(changes)


def gain(of: Seen, *changes: Change) -> Interval:
    found = played(of, *changes)
    assert found.speedup is not None, found.refused
    return found.speedup


def test_a_gain_on_a_rank_that_waits_for_another_is_none() -> None:
    assert gain(SLOW, PYTHON) == Interval(1.0, 1.0, 1.0)


def test_a_gain_on_the_slowest_rank_ends_where_another_decides() -> None:
    one = together(
        TWO,
        {"busy.math": 12, "comm.straggler_wait": 4},
        {"busy.math": 8, "idle.host.python": 8},
    )
    assert gain(one, PYTHON).mid == pytest.approx(16 / 12)


def test_what_all_ranks_have_is_gained_on_all() -> None:
    both = together(TWO, *[{"busy.math": 12, "idle.host.python": 4}] * 2)
    assert gain(both, PYTHON).mid == pytest.approx(16 / 12)


def test_without_its_surplus_the_next_slowest_rank_decides() -> None:
    three = together(
        TWO,
        {"busy.math": 16},
        {"busy.math": 12, "comm.straggler_wait": 4},
        {"busy.math": 8, "comm.straggler_wait": 8},
    )
    found = played(three, EVENED)
    assert found.family == "comm"
    assert found.speedup is not None
    assert found.speedup.mid == pytest.approx(16 / 12)
    assert found.speedup.low < 16 / 12
    assert "of the step that 3 ranks make together, of which the slowest" in found.notes[-1]


def test_ranks_that_wait_in_turn_gain_nothing_from_being_evened() -> None:
    slow, quick = {"busy.math": 16}, {"busy.math": 8}
    waits = {**quick, "comm.straggler_wait": 8}
    one = together(TWO, [slow, waits, slow, quick], [waits, slow, slow, quick])
    assert gain(one, EVENED).mid == pytest.approx(1.0)


def test_what_ranks_wait_by_chance_stays_once_they_are_even() -> None:
    """Of lengths 8 and 12, drawn for each of two ranks, the longer is 11 on average."""
    varied = together(
        TWO,
        [{"busy.math": 8, "comm.straggler_wait": 22}, {"busy.math": 12, "comm.straggler_wait": 18}],
        [{"busy.math": 28}, {"busy.math": 32}],
    )
    assert gain(varied, EVENED).mid == pytest.approx(30 / 11)


def test_steps_that_differ_more_make_the_interval_wider() -> None:
    waits = {"busy.math": 20}
    alike = together(TWO, {"busy.math": 10, "comm.straggler_wait": 10}, waits)
    steps = [{"busy.math": ms, "comm.straggler_wait": 20 - ms} for ms in (4, 16, 6, 14, 10)]
    varied = together(TWO, steps, waits)
    widths = [one.high / one.low for one in (gain(alike, EVENED), gain(varied, EVENED))]
    assert widths[1] > 1.1 * widths[0]


def test_who_meets_less_often_waits_less_often() -> None:
    turns = {"busy.math": 10, "comm.exposed": 2, "comm.straggler_wait": 4}
    quarter = Hosted(("comm.", "idle.comm."), Interval(0.25, 0.25, 0.25))
    found = played(together(TWO, turns, turns), quarter)
    assert found.family == "comm"
    assert found.speedup is not None
    assert found.speedup.mid == pytest.approx(16 / 11.5)


def test_what_carries_out_collectives_was_hardly_slowed_by_the_profiler() -> None:
    one = together(TWO, *[{"comm.exposed": 8, "idle.host.python": 8}] * 2)
    of_comm, of_python = gain(one, Hosted(("comm.",), GONE)), gain(one, PYTHON)
    assert of_comm.mid == of_python.mid == pytest.approx(2.0)
    assert of_comm.low > of_python.low


def test_of_one_rank_alone_no_gain_is_sure() -> None:
    one = seen(TWO, {"busy.math": 12, "idle.host.python": 4})
    assert is_joint(one)
    found = played(one, PYTHON)
    assert found.speedup is not None
    assert found.speedup.low == 1.0
    assert found.speedup.mid == pytest.approx(16 / 12)
    assert "windows tell of one rank alone" in found.notes[-1]
    refused = played(one, Merge(("Optimizer.step#*",), 1))
    assert refused.speedup is None


def test_a_run_of_one_rank_is_not_joint() -> None:
    assert not is_joint(seen(cpu(), {"busy.math": 12}))
    assert not is_joint(seen(None, {"busy.math": 12}))


def test_what_cannot_be_played_on_one_rank_is_refused() -> None:
    assert played(SLOW, Merge(("Optimizer.step#*",), 1)).refused is not None
    assert Joint(SLOW, "why", hosts=True).account([EVENED]) is None


FED = Predicted(Interval(1.2, 1.4, 1.6), "feed")


def capped(of: Seen, found: Predicted = FED, *, hosts: bool = True) -> Interval | None:
    return Joint(of, "not replayed", hosts=hosts).capped(found).speedup


def test_a_loader_gives_no_more_than_its_waits_on_the_rank_that_decides() -> None:
    slow = {"busy.math": 16}
    waiting = {"busy.math": 6, "idle.data.read": 4, "comm.straggler_wait": 6}
    assert capped(together(TWO, waiting, slow)) == Interval(1.0, 1.0, 1.0)
    some = capped(together(TWO, *[{"busy.math": 14, "idle.data.read": 2}] * 2))
    assert some is not None
    assert (some.low, some.mid) == (pytest.approx(16 / 14), pytest.approx(16 / 14))
    assert 16 / 14 < some.high < 1.6
    assert capped(together(TWO, *[{"busy.math": 8, "idle.data.read": 8}] * 2)) == FED.speedup


def test_a_loader_is_not_capped_by_what_is_not_known() -> None:
    assert capped(seen(TWO, {"busy.math": 12})) == FED.speedup
    assert capped(SLOW, hosts=False) == FED.speedup
    assert capped(SLOW, Predicted(None, "feed", refused="no")) is None


def test_on_devices_communication_alone_is_played() -> None:
    on_gpu = together(
        gpu(*WORLD),
        {"busy.tc_math": 60, "comm.exposed": 20, "comm.straggler_wait": 20},
        {"busy.tc_math": 80, "comm.exposed": 20},
    )
    half = Scale(Interval(0.5, 0.5, 0.5), leaves=("comm.exposed",))
    for changes in ((EVENED,), (half,)):
        assert played(on_gpu, *changes, hosts=False).speedup is not None
    for one in (PYTHON, Scale(GONE, names=("gemm",)), Omit(("aten::item",))):
        assert played(on_gpu, one, hosts=False).refused == "not replayed"


def test_the_steps_of_several_ranks_are_played_together() -> None:
    assert player_of((), SLOW).play([EVENED]).speedup == gain(SLOW, EVENED)


# ── What lies outside of windows ────────────────────────────────────────────────────────────────

SAVING = "idle.io_main.checkpoint"


def priced(of: Seen, *changes: Change) -> Predicted:
    return price(Prices(of, Joint(of, "not replayed", hosts=True), Ceilings()), changes)


def test_what_one_rank_saves_all_ranks_wait_for() -> None:
    one = together(TWO, {"busy.math": 12, SAVING: 4}, {"busy.math": 12, "comm.straggler_wait": 4})
    found = marked(one, SAVING)
    assert found == Interval(0.25, 0.25, 0.25)
    speedup = priced(one, Drop((SAVING,))).speedup
    assert speedup is not None
    assert speedup.mid == pytest.approx(16 / 12)


def test_what_a_rank_saves_while_it_would_wait_is_no_sure_loss() -> None:
    idle = {"busy.math": 6, SAVING: 4, "comm.straggler_wait": 6}
    found = marked(together(TWO, idle, {"busy.math": 16}), SAVING)
    assert found == Interval(0.0, 0.25, 0.25)
    both = marked(together(TWO, idle, {"busy.math": 14, SAVING: 2}), SAVING)
    assert both == Interval(0.125, 0.25, 0.25)


def test_of_one_rank_the_account_tells() -> None:
    assert marked(seen(cpu(), {"busy.math": 12, SAVING: 4}), SAVING) is None
    assert marked(seen(None, {"busy.math": 12, SAVING: 4}), SAVING) is None


# ── Tracing ─────────────────────────────────────────────────────────────────────────────────────

TRACED = together(
    TWO,
    *[{"busy.math": 10, "comm.exposed": 6}] * 2,
    parts=(operator("aten::add", calls=4000, host_ms=6),),
)


def with_windows(of: Seen, median_ms: float) -> Seen:
    steps = Steps(20, 0, round(median_ms * 1e6), 0, 0, "gapless:step", (), None)
    return replace(of, study=replace(of.study, steps=steps))


def test_what_tracing_cost_is_found_from_plain_steps_within_what_hosts_take() -> None:
    events = 4000 * 10 / 20  # of ten stated steps, over those of both ranks
    assert tracing(TRACED) == (500 * events, 1700 * events, 2500 * events)
    plain = stepped(TRACED, median_ns=14_000_000)
    assert tracing(with_windows(plain, 16))[1] == 2_000_000
    assert tracing(with_windows(plain, 30))[1:] == (16_000_000, 16_000_000)
    assert tracing(with_windows(plain, 50))[1] == 10_000 * events
    assert tracing(with_windows(plain, 10))[1] == 500 * events
    profiled = stepped(plain, profiled_only=True)
    assert tracing(with_windows(profiled, 16))[1] == 1700 * events


def test_of_devices_and_of_no_steps_nothing_is_taken_off() -> None:
    assert tracing(together(gpu(*WORLD), *[{"busy.math": 10.0}] * 2)) == (0, 0, 0)
    assert tracing(seen(TWO, {})) == (0, 0, 0)


def test_tracing_is_taken_off_where_events_are() -> None:
    found = eased(TRACED, 4_000_000).study
    assert {one.leaves["busy.math"] for one in found.account.rows} == {6_000_000}
    assert {one.leaves["comm.exposed"] for one in found.account.rows} == {6_000_000}
    assert {one.row.end - one.row.start for one in found.account.rows} == {12_000_000}
    before = TRACED.study.tables.operators[0].host_total_ns
    assert found.tables.operators[0].host_total_ns == pytest.approx(0.6 * before)
    most = eased(TRACED, 9_000_000).study.account.rows[0]
    assert most.leaves["busy.math"] == 4_000_000
    silent = together(TWO, *[{"comm.exposed": 6.0}] * 2)
    assert eased(silent, 1_000_000).study.account.rows == silent.study.account.rows


# ── What each rank has ──────────────────────────────────────────────────────────────────────────


def test_what_each_rank_has_at_least_is_the_trainings() -> None:
    assert ranked.least(SLOW, "busy.math") == pytest.approx(6e6)
    assert ranked.least(SLOW, "idle.host.python") == 0
    assert ranked.least(SLOW, "idle.gc") == 0
    assert ranked.least(seen(cpu(), {"busy.math": 12}), "busy.math") == pytest.approx(12e6)


def test_windows_of_one_rank_do_not_tell_of_others() -> None:
    with pytest.raises(NotSeenError, match="of 2 ranks windows tell of no more than one"):
        ranked.several(seen(TWO, {"busy.math": 12}))
    assert ranked.several(seen(cpu(), {"busy.math": 12})) == ()
    assert [one.rank for one in ranked.several(SLOW)] == [0, 1]


@pytest.mark.parametrize(("late", "said"), [(1, 1), (0, 0)])
def test_a_rank_is_slow_for_those_who_wait_for_it(late: int, said: int) -> None:
    most, less = Straggler(late, 8_000_000, 10), Straggler(1 - late, 1_000_000, 3)
    of = replace(SLOW, study=replace(SLOW.study, stragglers=(less, most)))
    assert len(straggling_rank(of)) == said


def test_the_line_of_a_rank_is_where_it_stands_oftener_than_others() -> None:
    there = standing(SLOW, (line(77, 0.9), line(82, 0.1)), (line(77, 0.4), line(79, 0.6)))
    found = ranked.line_of(there, 1)
    assert found is not None
    assert found.line == 79
    assert ranked.line_of(standing(SLOW, (line(77, 0.9),), (line(77, 0.9),)), 1) is None
    assert ranked.line_of(standing(SLOW, (line(77, 0.9),)), 0) is None
    assert ranked.line_of(SLOW, 1) is None


def test_lines_are_told_by_rank_where_there_are_several() -> None:
    logs = [Log(rank=rank, pid=10 + rank, world=2, end=2000) for rank in (0, 1)]
    made = [
        replace(one, stacks=(StackCount("training", (("train.py", 7 + at, "train"),), 3),))
        for at, one in enumerate(recording(*logs).processes)
    ]
    found = lines_of_ranks(made)
    assert {rank: [one.line for one in lines] for rank, lines in found.items()} == {0: [7], 1: [8]}
    assert lines_of_ranks(made[:1]) == {}
