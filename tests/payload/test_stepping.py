"""Which calls are step edges, decided while they happen."""

import threading
from collections.abc import Iterator

import pytest

from gapless.payload import identities, recorder, stepping


@pytest.fixture
def edges(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, int, int]]]:
    seen: list[tuple[int, int, int]] = []

    def edge(number: int, start: int, end: int) -> None:
        seen.append((number, start, end))

    monkeypatch.setattr(recorder, "edge", edge)
    known(monkeypatch, "nothing")
    stepping.forget()
    yield seen
    stepping.forget()
    recorder.resume()


def known(monkeypatch: pytest.MonkeyPatch, noun: str) -> None:
    def asked(other: str) -> bool:
        return other == noun

    monkeypatch.setattr(identities, "known", asked)


def starts(edges: list[tuple[int, int, int]]) -> list[int]:
    return [start for _, start, _ in edges]


def test_one_optimizer_anchors_from_its_fifth_call(edges: list[tuple[int, int, int]]) -> None:
    for number in range(8):
        stepping.stepped(0, number, number)
    assert edges == [(number, number, number) for number in range(4, 8)]


def test_of_two_the_one_with_fewer_calls_anchors(edges: list[tuple[int, int, int]]) -> None:
    for cycle in range(30):
        for _ in range(3):
            stepping.stepped(0, cycle, 0)
        stepping.stepped(1, 1000 + cycle, 0)
    late = [start for start in starts(edges) if start % 1000 >= 5]
    assert late == [1000 + cycle for cycle in range(5, 30)]


def test_of_two_with_as_many_calls_the_first_seen_anchors(
    edges: list[tuple[int, int, int]],
) -> None:
    for cycle in range(200):
        stepping.stepped(7, 1, cycle)
        stepping.stepped(3, 2, cycle)
    assert set(starts(edges)) == {1}


def test_an_optimizer_that_steps_no_more_gives_way(edges: list[tuple[int, int, int]]) -> None:
    for _ in range(30):
        stepping.stepped(0, 1, 0)
    for _ in range(100):
        stepping.stepped(1, 2, 0)
    assert starts(edges)[-20:] == [2] * 20


def test_three_hundred_optimizers_make_one_edge_a_cycle(edges: list[tuple[int, int, int]]) -> None:
    for cycle in range(40):
        for number in range(300):
            stepping.stepped(number, cycle, number)
    assert starts(edges)[-20:] == list(range(20, 40))


def test_without_an_optimizer_the_loader_with_most_batches_anchors(
    edges: list[tuple[int, int, int]],
) -> None:
    for batch in range(100):
        stepping.handed_over(0, batch, 1)
        if batch % 10 == 0:
            stepping.handed_over(1, batch, 2)
    assert [edge[2] for edge in edges] == [1] * 96


def test_a_loader_anchors_where_an_optimizers_steps_cannot_be_seen(
    edges: list[tuple[int, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    known(monkeypatch, "optimizer")
    for batch in range(60):
        stepping.handed_over(0, batch, 1)
    assert starts(edges) == list(range(stepping.LONELY - 1, 60))
    for number in range(5):
        stepping.stepped(0, 1000 + number, 0)
    stepping.handed_over(0, 61, 1)
    assert starts(edges)[-1] == 1004


def test_a_loader_anchors_where_an_optimizer_has_stopped_to_step(
    edges: list[tuple[int, int, int]],
) -> None:
    for number in range(4):  # the warm-up, and what a CUDA graph then replays
        stepping.stepped(0, 1000 + number, 0)
    for batch in range(stepping.FAR + 10):
        stepping.handed_over(0, batch, 1)
    late = stepping.FAR + stepping.ENOUGH - 2  # a loader anchors from its fifth batch
    assert starts(edges) == list(range(late, stepping.FAR + 10))
    stepping.stepped(0, 1004, 0)
    stepping.handed_over(0, 500, 1)
    assert starts(edges)[-1] == 1004


@pytest.mark.usefixtures("edges")
def test_several_threads_that_step_are_known() -> None:
    stepping.stepped(0, 1, 2)
    stepping.stepped(1, 2, 3)
    assert not stepping.several()
    other = threading.Thread(target=stepping.stepped, args=(1, 3, 4))
    other.start()
    other.join()
    assert stepping.several()


def test_a_loader_does_not_anchor_between_rare_steps(edges: list[tuple[int, int, int]]) -> None:
    for step in range(4):
        stepping.stepped(0, 1000 + step, 0)
        for batch in range(stepping.FAR - 1):
            stepping.handed_over(0, batch, 1)
    assert edges == []


def test_of_long_steps_the_second_is_an_edge(edges: list[tuple[int, int, int]]) -> None:
    for number in range(3):
        stepping.stepped(0, number, number * stepping.LONG_NS)
        stepping.stepped(1, number, number * stepping.LONG_NS + 1)
    assert starts(edges) == [1, 2]
    stepping.forget()
    for number in range(4):
        stepping.stepped(0, 100 + number, number * stepping.LONG_NS // 2)
    assert starts(edges) == [1, 2]


def test_backward_passes_anchor_where_no_optimizer_does(edges: list[tuple[int, int, int]]) -> None:
    for number in range(8):
        stepping.passed_forward(0, 1, number)
        stepping.passed_back(3, 2, number)
        stepping.handed_over(0, 3, number)
    assert set(starts(edges)) == {2}
    assert len(edges) == 4


def test_forward_passes_anchor_where_nothing_else_does(edges: list[tuple[int, int, int]]) -> None:
    for number in range(8):
        stepping.passed_forward(0, number, number)
    assert starts(edges) == [4, 5, 6, 7]
    stepping.passed_back(0, 9, 9)
    stepping.passed_forward(0, 10, 10)
    assert starts(edges) == [4, 5, 6, 7]


def test_the_users_own_word_leads_before_all_else(edges: list[tuple[int, int, int]]) -> None:
    for number in range(10):
        stepping.stepped(0, 1, number)
        stepping.passed_back(0, 2, number)
        stepping.ended(0, 1000 + number)
    assert starts(edges) == [1, *range(1004, 1010)], "until it was said five times, the optimizer"


def test_backward_passes_are_marked_until_an_optimizer_anchors_and_when_it_stops() -> None:
    stepping.forget()
    for number in range(stepping.ENOUGH):
        assert stepping.wants_passes()
        stepping.stepped(0, number, number)
    wanted = [stepping.wants_passes() for _ in range(stepping.FAR + 2)]
    assert wanted == [False] * stepping.FAR + [True] * 2
    stepping.stepped(0, 9, 9)
    assert not stepping.wants_passes()
    stepping.forget()
