"""Who came last to a collective, and how long the others waited."""

import pytest
from msgspec.structs import replace

from gapless.accounting import gather_collectives, match_collectives, partition, sum_ledgers
from gapless.accounting.ranks.collectives import NO_ARRIVALS, Collectives
from gapless.model.leaf import LEAF
from gapless.model.trace import Collective
from tests.accounting.drawing import Act, Call, Drawing, draw

SUM = Collective("allreduce", "Float", 10, 10, "0", 2, "[0, 1]")


def draw_rank(
    rank: int | None, spans: list[tuple[int, int]], operations: list[Collective], clock: int = 0
) -> Drawing:
    acts = [
        Act(
            f"n{i}",
            s + clock,
            e + clock,
            Call(s - 5 + clock, s - 4 + clock),
            "comm",
            collective=operation,
        )
        for i, ((s, e), operation) in enumerate(zip(spans, operations, strict=True))
    ]
    return Drawing(acts, steps=[clock, 100 + clock], rank=rank)


def with_numbers(*seq: int | None) -> list[Collective]:
    return [replace(SUM, seq=number) for number in seq]


def gather_ranks(*drawings: Drawing) -> list[Collectives]:
    return [gather_collectives(draw(drawing).trace) for drawing in drawings]


EARLY, LATE = [(10, 30), (50, 60)], [(25, 30), (51, 60)]


@pytest.mark.parametrize("seq", [(7, 8), (None, None)])
@pytest.mark.parametrize("clock", [0, 10**18 + 7])
def test_the_last_to_come_is_blamed_for_the_wait(seq: tuple[int | None, ...], clock: int) -> None:
    drawings = (
        draw_rank(4, EARLY, with_numbers(*seq)),
        draw_rank(6, LATE, with_numbers(*seq), clock),
    )
    first_arrivals, second_arrivals = match_collectives(gather_ranks(*drawings))
    assert (first_arrivals.last_start.tolist(), first_arrivals.rank.tolist()) == ([25, 51], [6, 6])
    assert second_arrivals.last_start.tolist() == [25 + clock, 51 + clock]
    assert (first_arrivals.n_matched, first_arrivals.n_unmatched, first_arrivals.by_order) == (
        2,
        0,
        seq[0] is None,
    )
    ledger = partition(draw(drawings[0]).trace, first_arrivals)
    leaves = sum_ledgers([ledger]).leaves
    assert (leaves["comm.straggler_wait"], leaves["comm.exposed"]) == (16, 14)
    waits = ledger.leaf == LEAF["comm.straggler_wait"]
    assert set(ledger.facets.peer[waits].tolist()) == {6}
    assert set(ledger.facets.peer[~waits].tolist()) == {-1}
    late_leaves = sum_ledgers([partition(draw(drawings[1]).trace, second_arrivals)]).leaves
    assert "comm.straggler_wait" not in late_leaves
    assert late_leaves["comm.exposed"] == 14


def test_a_send_meets_the_receive_of_its_pair_whatever_each_rank_counts() -> None:
    group = Collective("send", "Float", 10, 10, "0", 4, "[0, 1, 2, 3]")
    sends = [replace(group, seq=1, peer=1), replace(group, seq=2, peer=2)]
    receives = replace(group, name="recv", seq=1, peer=0)
    drawings = [
        draw_rank(0, EARLY, sends),
        draw_rank(1, LATE[:1], [receives]),
        draw_rank(2, LATE[1:], [receives]),
    ]
    first = match_collectives(gather_ranks(*drawings))[0]
    assert (first.rank.tolist(), first.last_start.tolist()) == ([1, 2], [25, 51])


@pytest.mark.parametrize(
    ("ranks", "size", "meeting"),
    [("[0, 2, 4]", 3, [4]), ("[0, 1, ..., 31]", 32, [2]), ("[0, 2, ..., 62]", 32, [])],
)
def test_a_send_goes_to_the_rank_that_its_group_numbers_so(
    ranks: str, size: int, meeting: list[int]
) -> None:
    send = Collective("send", "Float", 10, 10, "1", size, ranks, peer=2)
    receive = replace(send, name="recv", peer=0)
    drawings = [
        draw_rank(0, EARLY[:1], [send]),
        draw_rank(2, LATE[:1], [receive]),
        draw_rank(4, LATE[:1], [receive]),
    ]
    assert match_collectives(gather_ranks(*drawings))[0].rank.tolist() == meeting


def test_ranks_without_a_number_are_told_apart_by_position() -> None:
    early, late = (
        draw_rank(None, EARLY, with_numbers(1, 2)),
        draw_rank(None, LATE, with_numbers(1, 2)),
    )
    assert match_collectives(gather_ranks(early, late))[0].rank.tolist() == [1, 1]


def test_numbers_match_what_both_ranks_recorded() -> None:
    early = draw_rank(0, EARLY, with_numbers(1, 2))
    late = draw_rank(1, [(51, 60), (70, 80)], with_numbers(2, 3))
    first_arrivals, second_arrivals = match_collectives(gather_ranks(early, late))
    assert (
        (first_arrivals.n_matched, first_arrivals.n_unmatched)
        == (second_arrivals.n_matched, second_arrivals.n_unmatched)
        == (1, 1)
    )
    assert first_arrivals.event.tolist() != second_arrivals.event.tolist()
    notes = {note.what: note.count for note in partition(draw(early).trace, first_arrivals).notes}
    assert notes["collectives matched over ranks"] == 1
    assert notes["collectives without their counterpart on other ranks"] == 1


def test_one_number_twice_is_matched_by_repetition() -> None:
    early = draw_rank(0, EARLY, with_numbers(5, 5))
    late = draw_rank(1, LATE, with_numbers(5, 5))
    assert match_collectives(gather_ranks(early, late))[0].last_start.tolist() == [25, 51]


@pytest.mark.parametrize(
    "late_rank",
    [
        draw_rank(1, LATE, [SUM, replace(SUM, name="broadcast")]),
        draw_rank(1, LATE[:1], [SUM]),
        draw_rank(1, LATE, [replace(SUM, group_size=4)] * 2),
    ],
    ids=["others", "fewer", "of a larger group"],
)
def test_does_not_guess_where_the_order_differs(late_rank: Drawing) -> None:
    all_arrivals = match_collectives(gather_ranks(draw_rank(0, EARLY, [SUM, SUM]), late_rank))
    assert [arrivals.n_matched for arrivals in all_arrivals] == [0, 0]
    assert all_arrivals[0].n_unmatched == 2


def test_a_group_of_which_ranks_are_missing_is_not_matched() -> None:
    larger = [replace(operation, group_size=3) for operation in with_numbers(1, 2)]
    all_arrivals = match_collectives(
        gather_ranks(draw_rank(0, EARLY, larger), draw_rank(1, LATE, larger))
    )
    assert [(arrivals.n_matched, arrivals.n_unmatched) for arrivals in all_arrivals] == [
        (0, 2),
        (0, 2),
    ]


def test_one_rank_alone_has_no_counterpart() -> None:
    (arrivals,) = match_collectives(gather_ranks(draw_rank(0, EARLY, with_numbers(1, 2))))
    assert (arrivals.n_matched, arrivals.n_unmatched) == (0, 2)
    assert match_collectives([]) == ()
    assert NO_ARRIVALS.n_matched == 0


def test_one_rank_alone_estimates_its_wait_by_the_quickest_of_like_collectives() -> None:
    spans = [
        (10 * index, 10 * index + length) for index, length in ((1, 8), (2, 3), (3, 5), (4, 3))
    ]
    drawing = draw_rank(0, spans, with_numbers(1, 2, 3, 4))
    leaves = sum_ledgers([partition(draw(drawing).trace)]).leaves
    assert leaves["comm.exposed"] == 4 * 3
    assert leaves["comm.wait_estimated"] == 5 + 2
    mixed = [replace(operation, dtype="Half") for operation in with_numbers(1)] + with_numbers(
        2, 3, 4
    )
    leaves = sum_ledgers([partition(draw(draw_rank(0, spans, mixed)).trace)]).leaves
    assert leaves["comm.wait_estimated"] == 2


def test_communication_that_names_nothing_is_all_exposed() -> None:
    acts = [Act("n", 10, 18, None, "comm"), Act("o", 20, 23, None, "comm")]
    leaves = sum_ledgers([partition(draw(Drawing(acts, steps=[0, 30])).trace)]).leaves
    assert leaves["comm.exposed"] == 11


def test_groups_of_some_of_the_ranks_are_matched_apart() -> None:
    def pair(name: str, members: str) -> list[Collective]:
        return [replace(operation, group=name, ranks=members) for operation in with_numbers(1, 2)]

    four = gather_ranks(
        draw_rank(0, EARLY, pair("a", "[0, 1]")),
        draw_rank(1, LATE, pair("a", "[0, 1]")),
        draw_rank(2, LATE, pair("b", "[2, 3]"), 1000),
        draw_rank(3, EARLY, pair("b", "[2, 3]")),
    )
    all_arrivals = match_collectives(four)
    assert [arrivals.n_matched for arrivals in all_arrivals] == [2, 2, 2, 2]
    assert [arrivals.rank.tolist() for arrivals in all_arrivals] == [[1, 1], [1, 1], [2, 2], [2, 2]]
    assert all_arrivals[2].last_start.tolist() == [1025, 1051]
    assert all_arrivals[3].last_start.tolist() == [25, 51]


def test_a_rank_in_two_groups_is_matched_in_each() -> None:
    two_groups = [replace(SUM, group="a", seq=1), replace(SUM, group="b", ranks="[1, 2]", seq=1)]
    three = gather_ranks(
        draw_rank(0, EARLY[:1], two_groups[:1]),
        draw_rank(1, LATE, two_groups),
        draw_rank(2, EARLY[1:], two_groups[1:]),
    )
    all_arrivals = match_collectives(three)
    assert [arrivals.n_matched for arrivals in all_arrivals] == [1, 2, 1]
    assert all_arrivals[0].rank.tolist() == [1]
    assert all_arrivals[2].rank.tolist() == [1]
