"""Collectives that threads of the host carry out: the training thread waits without a frame."""

import pytest
from msgspec.structs import replace

from gapless.accounting import (
    NO_ARRIVALS,
    gather_collectives,
    match_collectives,
    partition,
    sum_ledgers,
)
from gapless.accounting.ranks.collectives import Collectives
from gapless.model import category
from gapless.model.leaf import LEAF
from gapless.model.trace import Collective, Shape
from tests.accounting.drawing import Act, Call, Drawing, Frame, draw

MS = 1_000_000


def gloo(start: int, end: int, thread: str = "g", name: str = "all_reduce") -> Frame:
    return Frame("comm", start, end, thread, name=f"gloo:{name}", category=category.USER_ANNOTATION)


def op(start: int, end: int) -> Frame:
    return Frame("op", start, end, name="aten::mm")


def draw_rank(number: int, frames: list[Frame], *steps: int, clock: int = 0) -> Drawing:
    shifted = [replace(frame, start=frame.start + clock, end=frame.end + clock) for frame in frames]
    return Drawing(frames=shifted, steps=[bound + clock for bound in steps], rank=number)


def collectives_of(*drawings: Drawing, first_step: int | None = None) -> list[Collectives]:
    return [gather_collectives(draw(drawing).trace, first_step) for drawing in drawings]


def account_leaves(drawing: Drawing, *other_drawings: Drawing) -> dict[str, int]:
    arrivals = (
        match_collectives(collectives_of(drawing, *other_drawings, first_step=1))[0]
        if other_drawings
        else NO_ARRIVALS
    )
    return dict(sum_ledgers([partition(draw(drawing).trace, arrivals)]).leaves)


WAITS = [op(0, 10 * MS), gloo(5 * MS, 70 * MS), op(70 * MS, 80 * MS), op(80 * MS, 100 * MS)]
LATE = [op(0, 50 * MS), gloo(50 * MS, 70 * MS), op(70 * MS, 80 * MS), op(80 * MS, 100 * MS)]


@pytest.mark.parametrize("clock", [0, 10**18 + 7])
def test_waiting_without_a_frame_is_for_the_last_rank_and_then_for_the_transfer(clock: int) -> None:
    early, late = (
        draw_rank(0, WAITS, 0, 80 * MS, 100 * MS),
        draw_rank(1, LATE, 0, 80 * MS, 100 * MS, clock=clock),
    )
    leaves = account_leaves(early, late)
    assert leaves["comm.straggler_wait"] == 40 * MS
    assert leaves["comm.exposed"] == 20 * MS
    assert "idle.host.unframed" not in leaves
    assert account_leaves(late, early)["comm.exposed"] == 20 * MS
    arrivals = match_collectives(collectives_of(early, late, first_step=1))[0]
    ledger = partition(draw(early).trace, arrivals)
    waits = ledger.leaf == LEAF["comm.straggler_wait"]
    assert set(ledger.facets.peer[waits].tolist()) == {1}
    assert set(ledger.facets.peer[~waits].tolist()) == {-1}


def test_in_its_own_exchange_a_thread_waits_for_the_other_rank() -> None:
    sends = [op(0, 5 * MS), gloo(5 * MS, 70 * MS, "main", "send"), op(70 * MS, 80 * MS)]
    receives = [op(0, 50 * MS), gloo(50 * MS, 70 * MS, "main", "recv"), op(70 * MS, 80 * MS)]
    early, late = draw_rank(0, sends, 0, 80 * MS), draw_rank(1, receives, 0, 80 * MS)
    leaves = account_leaves(early, late)
    assert leaves["comm.straggler_wait"] == 45 * MS
    assert leaves["comm.exposed"] == 20 * MS
    assert "idle.comm.host" not in leaves


def exchange(start: int, end: int, name: str, peer: int) -> list[Frame]:
    """Return a send or receive with its call, whose inputs name the other rank."""
    call = {"send": "c10d::send", "recv": "c10d::recv_"}[name]
    shape = Shape(concrete=("", "", str(peer), "0"))
    frame = Frame("op", start, end, name=call, category=category.CPU_OP, shape=shape)
    return [frame, gloo(start, end, "m", name)]


def test_of_more_ranks_the_inputs_of_the_call_say_who_the_other_is() -> None:
    frames = [
        exchange(5 * MS, 70 * MS, "send", 2),
        exchange(5 * MS, 30 * MS, "recv", 2),
        [*exchange(10 * MS, 30 * MS, "send", 1), *exchange(50 * MS, 70 * MS, "recv", 0)],
    ]
    ranks = [
        draw_rank(rank, [op(0, 5 * MS), *calls, op(70 * MS, 80 * MS)], 0, 80 * MS)
        for rank, calls in enumerate(frames)
    ]
    first, second, last = match_collectives(collectives_of(*ranks, first_step=1))
    assert (first.rank.tolist(), first.last_start.tolist()) == ([2], [50 * MS])
    assert (second.rank.tolist(), second.last_start.tolist()) == ([2], [10 * MS])
    assert sorted(last.meeting.tolist()) == sorted([*first.meeting, *second.meeting])


@pytest.mark.parametrize("name", ["_AllReduce", "_AlltoAllSingle", "_c10d_functional::wait_tensor"])
def test_in_a_function_of_autograd_that_exchanges_a_thread_waits_for_the_last_rank(
    name: str,
) -> None:
    function = Frame("op", 0, 0, name=name)
    early, late = (
        draw_rank(number, [replace(function, start=start, end=70 * MS), *frames], 0, 80 * MS)
        for number, (start, frames) in enumerate(((10 * MS, WAITS[:3]), (50 * MS, LATE[:3])))
    )
    leaves = account_leaves(early, late)
    assert leaves["comm.straggler_wait"] == 40 * MS
    assert leaves["comm.exposed"] == 20 * MS


def test_one_rank_alone_estimates_by_the_same_place_in_other_steps() -> None:
    frames = [op(0, MS), gloo(MS, 30 * MS), gloo(30 * MS, 31 * MS), op(31 * MS, 40 * MS)]
    frames += [op(40 * MS, 41 * MS), gloo(41 * MS, 51 * MS), gloo(51 * MS, 57 * MS)]
    leaves = account_leaves(draw_rank(0, [*frames, op(57 * MS, 80 * MS)], 0, 40 * MS, 80 * MS))
    assert leaves["comm.wait_estimated"] == (29 - 10) * MS + 5 * MS
    assert leaves["comm.exposed"] == (10 + 1 + 10 + 1) * MS


def test_the_wait_may_be_over_before_the_mark_ends() -> None:
    frames = [op(0, 10 * MS), gloo(5 * MS, 33 * MS), op(30 * MS, 31 * MS), op(32 * MS, 60 * MS)]
    leaves = account_leaves(draw_rank(0, frames, 0, 30 * MS, 60 * MS))
    assert leaves["comm.exposed"] == 20 * MS + MS


def test_what_ends_long_after_was_not_waited_for() -> None:
    frames = [op(0, 10 * MS), gloo(5 * MS, 40 * MS), op(14 * MS, 60 * MS)]
    leaves = account_leaves(draw_rank(0, frames, 0, 30 * MS, 60 * MS))
    assert leaves["idle.host.python"] == 4 * MS
    assert not any(leaf.startswith("comm.") for leaf in leaves)


def test_of_a_silence_that_a_collective_explains_the_rest_is_python() -> None:
    frames = [op(0, 10 * MS), gloo(10 * MS, 29 * MS), op(30 * MS, 60 * MS)]
    leaves = account_leaves(draw_rank(0, frames, 0, 30 * MS, 60 * MS))
    assert leaves["comm.exposed"] == 19 * MS
    assert leaves["idle.host.python"] == MS


def test_steps_that_one_rank_did_not_record_are_left_out() -> None:
    longer = draw_rank(
        0, [*WAITS, gloo(110 * MS, 120 * MS), op(120 * MS, 190 * MS)], 0, 100 * MS, 190 * MS
    )
    shorter = draw_rank(1, LATE, 0, 100 * MS)
    first_arrivals, second_arrivals = match_collectives(
        collectives_of(longer, shorter, first_step=7)
    )
    assert (first_arrivals.n_matched, first_arrivals.n_unmatched, first_arrivals.by_order) == (
        1,
        1,
        False,
    )
    assert (second_arrivals.n_matched, second_arrivals.n_unmatched) == (1, 0)
    assert [
        arrivals.n_matched for arrivals in match_collectives(collectives_of(longer, shorter))
    ] == [0, 0]


def test_what_one_of_two_ranks_sends_the_other_receives() -> None:
    frames = [gloo(5 * MS, 70 * MS, name="send"), gloo(80 * MS, 90 * MS, name="recv")]
    mirrored = [gloo(50 * MS, 70 * MS, name="recv"), gloo(75 * MS, 90 * MS, name="send")]
    sender = draw_rank(0, [*frames, op(90 * MS, 100 * MS)], 0, 100 * MS)
    receiver = draw_rank(1, [*mirrored, op(90 * MS, 100 * MS)], 0, 100 * MS)
    arrivals = match_collectives(collectives_of(sender, receiver, first_step=1))
    assert [rank.last_start.tolist() for rank in arrivals] == [[50 * MS, 80 * MS]] * 2
    assert arrivals[0].rank.tolist() == [1, 0]
    alone = draw_rank(2, [*frames, op(90 * MS, 100 * MS)], 0, 100 * MS)
    third = match_collectives(collectives_of(sender, receiver, alone, first_step=1))[2]
    assert third.n_matched == 0


def test_a_step_with_another_number_of_collectives_is_left_out() -> None:
    twice = draw_rank(
        0, [gloo(5 * MS, 20 * MS), gloo(20 * MS, 30 * MS), op(30 * MS, 100 * MS)], 0, 100 * MS
    )
    once = draw_rank(1, [gloo(5 * MS, 20 * MS), op(30 * MS, 100 * MS)], 0, 100 * MS)
    assert [
        arrivals.n_matched
        for arrivals in match_collectives(collectives_of(twice, once, first_step=1))
    ] == [0, 0]


def test_collectives_of_no_named_group_that_never_meet_are_of_two_groups() -> None:
    early_rank = draw_rank(0, [gloo(5, 10), gloo(40, 50), gloo(70, 80), op(80, 100)], 0, 100)
    late_rank = draw_rank(1, [gloo(5, 10), gloo(52, 60), gloo(70, 80), op(80, 100)], 0, 100)
    assert [
        arrivals.n_matched
        for arrivals in match_collectives(collectives_of(early_rank, late_rank, first_step=1))
    ] == [2, 2]


def test_kernels_without_numbers_are_matched_step_by_step() -> None:
    collective = Collective("allreduce", "Float", 10, 10, "0", 2, "[0, 1]")

    def device(number: int, starts: list[int], *steps: int) -> Drawing:
        acts = [
            Act(
                f"n{start}",
                start,
                start + 10,
                Call(start - 2, start - 1),
                "comm",
                collective=collective,
            )
            for start in starts
        ]
        return Drawing(acts, steps=list(steps), rank=number)

    longer, shorter = device(0, [10, 50, 130], 0, 100, 200), device(1, [14, 50], 0, 100)
    first_arrivals, second_arrivals = match_collectives(
        collectives_of(longer, shorter, first_step=3)
    )
    assert (first_arrivals.n_matched, second_arrivals.n_matched, first_arrivals.by_order) == (
        2,
        2,
        False,
    )
    assert [
        arrivals.n_matched for arrivals in match_collectives(collectives_of(longer, shorter))
    ] == [0, 0]
