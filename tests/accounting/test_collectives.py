"""Who came last to a collective, and how long the others waited."""

from dataclasses import replace

import pytest

from gapless.accounting import account, collectives, match, partition
from gapless.accounting.collectives import NO_ARRIVALS, Collectives
from gapless.model.leaf import LEAF
from gapless.model.trace import Collective
from tests.accounting.drawing import Act, Call, Drawing, draw

SUM = Collective("allreduce", "Float", 10, 10, "0", 2, "[0, 1]")


def drawn_rank(
    rank: int | None, spans: list[tuple[int, int]], what: list[Collective], clock: int = 0
) -> Drawing:
    acts = [
        Act(f"n{i}", s + clock, e + clock, Call(s - 5 + clock, s - 4 + clock), "comm", what=one)
        for i, ((s, e), one) in enumerate(zip(spans, what, strict=True))
    ]
    return Drawing(acts, steps=[clock, 100 + clock], rank=rank)


def numbered(*seq: int | None) -> list[Collective]:
    return [replace(SUM, seq=one) for one in seq]


def ranks(*drawings: Drawing) -> list[Collectives]:
    return [collectives(draw(one).trace) for one in drawings]


EARLY, LATE = [(10, 30), (50, 60)], [(25, 30), (51, 60)]


@pytest.mark.parametrize("seq", [(7, 8), (None, None)])
@pytest.mark.parametrize("clock", [0, 10**18 + 7])
def test_the_last_to_come_is_blamed_for_the_wait(seq: tuple[int | None, ...], clock: int) -> None:
    drawings = (
        drawn_rank(4, EARLY, numbered(*seq)),
        drawn_rank(6, LATE, numbered(*seq), clock),
    )
    first, second = match(ranks(*drawings))
    assert (first.last.tolist(), first.rank.tolist()) == ([25, 51], [6, 6])
    assert second.last.tolist() == [25 + clock, 51 + clock]
    assert (first.matched, first.unmatched, first.by_order) == (2, 0, seq[0] is None)
    ledger = partition(draw(drawings[0]).trace, first)
    leaves = account([ledger]).leaves
    assert (leaves["comm.straggler_wait"], leaves["comm.exposed"]) == (16, 14)
    waits = ledger.leaf == LEAF["comm.straggler_wait"]
    assert set(ledger.facets.peer[waits].tolist()) == {6}
    assert set(ledger.facets.peer[~waits].tolist()) == {-1}
    late = account([partition(draw(drawings[1]).trace, second)]).leaves
    assert "comm.straggler_wait" not in late
    assert late["comm.exposed"] == 14


def test_ranks_without_a_number_are_told_apart_by_position() -> None:
    one, two = drawn_rank(None, EARLY, numbered(1, 2)), drawn_rank(None, LATE, numbered(1, 2))
    assert match(ranks(one, two))[0].rank.tolist() == [1, 1]


def test_numbers_match_what_both_ranks_recorded() -> None:
    one = drawn_rank(0, EARLY, numbered(1, 2))
    two = drawn_rank(1, [(51, 60), (70, 80)], numbered(2, 3))
    first, second = match(ranks(one, two))
    assert (first.matched, first.unmatched) == (second.matched, second.unmatched) == (1, 1)
    assert first.event.tolist() != second.event.tolist()
    notes = {note.what: note.count for note in partition(draw(one).trace, first).notes}
    assert notes["collectives matched over ranks"] == 1
    assert notes["collectives without their counterpart on other ranks"] == 1


def test_one_number_twice_is_matched_by_repetition() -> None:
    one = drawn_rank(0, EARLY, numbered(5, 5))
    two = drawn_rank(1, LATE, numbered(5, 5))
    assert match(ranks(one, two))[0].last.tolist() == [25, 51]


@pytest.mark.parametrize(
    "other",
    [
        drawn_rank(1, LATE, [SUM, replace(SUM, name="broadcast")]),
        drawn_rank(1, LATE[:1], [SUM]),
        drawn_rank(1, LATE, [replace(SUM, group_size=4)] * 2),
    ],
    ids=["others", "fewer", "of a larger group"],
)
def test_does_not_guess_where_the_order_differs(other: Drawing) -> None:
    found = match(ranks(drawn_rank(0, EARLY, [SUM, SUM]), other))
    assert [one.matched for one in found] == [0, 0]
    assert found[0].unmatched == 2


def test_a_group_of_which_ranks_are_missing_is_not_matched() -> None:
    larger = [replace(one, group_size=3) for one in numbered(1, 2)]
    found = match(ranks(drawn_rank(0, EARLY, larger), drawn_rank(1, LATE, larger)))
    assert [(one.matched, one.unmatched) for one in found] == [(0, 2), (0, 2)]


def test_one_rank_alone_has_no_counterpart() -> None:
    (found,) = match(ranks(drawn_rank(0, EARLY, numbered(1, 2))))
    assert (found.matched, found.unmatched) == (0, 2)
    assert match([]) == ()
    assert NO_ARRIVALS.matched == 0


def test_one_rank_alone_estimates_its_wait_by_the_quickest_of_like_collectives() -> None:
    spans = [(10 * at, 10 * at + length) for at, length in ((1, 8), (2, 3), (3, 5), (4, 3))]
    drawing = drawn_rank(0, spans, numbered(1, 2, 3, 4))
    leaves = account([partition(draw(drawing).trace)]).leaves
    assert leaves["comm.exposed"] == 4 * 3
    assert leaves["comm.wait_estimated"] == 5 + 2
    other = [replace(one, dtype="Half") for one in numbered(1)] + numbered(2, 3, 4)
    leaves = account([partition(draw(drawn_rank(0, spans, other)).trace)]).leaves
    assert leaves["comm.wait_estimated"] == 2


def test_communication_that_names_nothing_is_all_exposed() -> None:
    acts = [Act("n", 10, 18, None, "comm"), Act("o", 20, 23, None, "comm")]
    leaves = account([partition(draw(Drawing(acts, steps=[0, 30])).trace)]).leaves
    assert leaves["comm.exposed"] == 11


def test_groups_of_some_of_the_ranks_are_matched_apart() -> None:
    def pair(name: str, members: str) -> list[Collective]:
        return [replace(one, group=name, ranks=members) for one in numbered(1, 2)]

    four = ranks(
        drawn_rank(0, EARLY, pair("a", "[0, 1]")),
        drawn_rank(1, LATE, pair("a", "[0, 1]")),
        drawn_rank(2, LATE, pair("b", "[2, 3]"), 1000),
        drawn_rank(3, EARLY, pair("b", "[2, 3]")),
    )
    found = match(four)
    assert [one.matched for one in found] == [2, 2, 2, 2]
    assert [one.rank.tolist() for one in found] == [[1, 1], [1, 1], [2, 2], [2, 2]]
    assert found[2].last.tolist() == [1025, 1051]
    assert found[3].last.tolist() == [25, 51]


def test_a_rank_in_two_groups_is_matched_in_each() -> None:
    both = [replace(SUM, group="a", seq=1), replace(SUM, group="b", ranks="[1, 2]", seq=1)]
    three = ranks(
        drawn_rank(0, EARLY[:1], both[:1]),
        drawn_rank(1, LATE, both),
        drawn_rank(2, EARLY[1:], both[1:]),
    )
    found = match(three)
    assert [one.matched for one in found] == [1, 2, 1]
    assert found[0].rank.tolist() == [1]
    assert found[2].rank.tolist() == [1]
