"""Which calls are step edges, decided while they happen."""

import threading
from collections.abc import Iterator

import pytest

from gapless import wire
from gapless.payload import identities, recorder, stepping


@pytest.fixture
def edges(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, int, int]]]:
    noted_edges: list[tuple[int, int, int]] = []

    def edge(number: int, start: int, end: int) -> None:
        noted_edges.append((number, start, end))

    monkeypatch.setattr(recorder, "edge", edge)
    answer_only(monkeypatch, "nothing")
    stepping.forget()
    yield noted_edges
    stepping.forget()
    recorder.resume()


def answer_only(monkeypatch: pytest.MonkeyPatch, noun: str) -> None:
    def has_any(queried: str) -> bool:
        return queried == noun

    monkeypatch.setattr(identities, "has_any", has_any)


def edge_starts(edges: list[tuple[int, int, int]]) -> list[int]:
    return [start for _, start, _ in edges]


def test_one_optimizer_anchors_from_its_fifth_call(edges: list[tuple[int, int, int]]) -> None:
    for number in range(8):
        stepping.note_step(0, number, number)
    assert edges == [(number, number, number) for number in range(4, 8)]


def test_of_two_the_one_with_fewer_calls_anchors(edges: list[tuple[int, int, int]]) -> None:
    for cycle in range(30):
        for call in range(3):
            stepping.note_step(0, cycle, 4 * cycle + call)
        stepping.note_step(1, 1000 + cycle, 4 * cycle + 3)
    late_starts = [start for start in edge_starts(edges) if start % 1000 >= 5]
    assert late_starts == [1000 + cycle for cycle in range(5, 30)]


def test_of_a_critic_that_is_ahead_the_rarer_one_anchors_from_its_third_call(
    edges: list[tuple[int, int, int]],
) -> None:
    for cycle in range(4):
        for call in range(5):
            stepping.note_step(0, cycle, 6 * cycle + call)
        stepping.note_step(1, 1000 + cycle, 6 * cycle + 5)
    assert edge_starts(edges)[-2:] == [1002, 1003]


def test_of_two_with_as_many_calls_the_first_seen_anchors(
    edges: list[tuple[int, int, int]],
) -> None:
    for cycle in range(200):
        stepping.note_step(7, 1, cycle)
        stepping.note_step(3, 2, cycle)
    assert set(edge_starts(edges)) == {1}


def test_an_optimizer_that_steps_no_more_gives_way(edges: list[tuple[int, int, int]]) -> None:
    for number in range(30):
        stepping.note_step(0, 1, number)
    for number in range(30, 130):
        stepping.note_step(1, 2, number)
    assert edge_starts(edges)[-20:] == [2] * 20


def test_one_that_steps_no_more_after_a_long_phase_gives_way_at_once(
    edges: list[tuple[int, int, int]],
) -> None:
    for number in range(10_000):
        stepping.note_step(0, 1, number)
    for number in range(10_000, 10_200):
        stepping.note_step(1, 2, number)
    n_late = 200 - stepping.PERIOD - wire.MIN_ENDING_CALLS
    assert edge_starts(edges)[-n_late:] == [2] * n_late


def test_a_step_may_hold_a_hundred_calls_of_another(edges: list[tuple[int, int, int]]) -> None:
    for step in range(40):
        for call in range(100):
            stepping.note_backward(0, 1, 1000 * step + call)
        stepping.note_backward(1, 2, 1000 * step + 999)
    assert edge_starts(edges)[-30:] == [2] * 30


def test_three_hundred_optimizers_make_one_edge_a_cycle(edges: list[tuple[int, int, int]]) -> None:
    for cycle in range(40):
        for number in range(300):
            stepping.note_step(number, cycle, 1000 * cycle + number)
    assert edge_starts(edges)[-20:] == list(range(20, 40))


def test_without_an_optimizer_the_loader_with_most_batches_anchors(
    edges: list[tuple[int, int, int]],
) -> None:
    for batch in range(100):
        stepping.note_batch(0, batch, 1)
        if batch % 10 == 0:
            stepping.note_batch(1, batch, 2)
    assert [edge[2] for edge in edges] == [1] * 96


def test_a_loader_anchors_where_an_optimizers_steps_cannot_be_seen(
    edges: list[tuple[int, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_only(monkeypatch, "optimizer")
    for batch in range(60):
        stepping.note_batch(0, batch, 1)
    assert edge_starts(edges) == list(range(stepping.LONELY_CALLS - 1, 60))
    for number in range(5):
        stepping.note_step(0, 1000 + number, 0)
    stepping.note_batch(0, 61, 1)
    assert edge_starts(edges)[-1] == 1004


def test_a_loader_anchors_where_an_optimizer_has_stopped_to_step(
    edges: list[tuple[int, int, int]],
) -> None:
    for number in range(4):  # the warm-up, and what a CUDA graph then replays
        stepping.note_step(0, 1000 + number, 0)
    for batch in range(stepping.FAR_CALLS + 10):
        stepping.note_batch(0, batch, 1)
    n_late = stepping.FAR_CALLS + wire.MIN_ENDING_CALLS - 2  # a loader anchors from its fifth batch
    assert edge_starts(edges) == list(range(n_late, stepping.FAR_CALLS + 10))
    stepping.note_step(0, 1004, 0)
    stepping.note_batch(0, 500, 1)
    assert edge_starts(edges)[-1] == 1004


@pytest.mark.usefixtures("edges")
def test_several_threads_that_step_are_known() -> None:
    stepping.note_step(0, 1, 2)
    stepping.note_step(1, 2, 3)
    assert not stepping.has_several_threads()
    thread = threading.Thread(target=stepping.note_step, args=(1, 3, 4))
    thread.start()
    thread.join()
    assert stepping.has_several_threads()


def test_a_loader_does_not_anchor_between_rare_steps(edges: list[tuple[int, int, int]]) -> None:
    for step in range(4):
        stepping.note_step(0, 1000 + step, 0)
        for batch in range(stepping.FAR_CALLS - 1):
            stepping.note_batch(0, batch, 1)
    assert edges == []


def test_of_long_steps_the_second_is_an_edge(edges: list[tuple[int, int, int]]) -> None:
    for number in range(3):
        stepping.note_step(0, number, number * stepping.LONG_NS)
        stepping.note_step(1, number, number * stepping.LONG_NS + 1)
    assert edge_starts(edges) == [1, 2]
    stepping.forget()
    for number in range(4):
        stepping.note_step(0, 100 + number, number * stepping.LONG_NS // 2)
    assert edge_starts(edges) == [1, 2]


def test_backward_passes_anchor_where_no_optimizer_does(edges: list[tuple[int, int, int]]) -> None:
    for number in range(8):
        stepping.note_forward(0, 1, number)
        stepping.note_backward(3, 2, number)
        stepping.note_batch(0, 3, number)
    assert set(edge_starts(edges)) == {2}
    assert len(edges) == 4


def test_forward_passes_anchor_where_nothing_else_does(edges: list[tuple[int, int, int]]) -> None:
    for number in range(8):
        stepping.note_forward(0, number, number)
    assert edge_starts(edges) == [4, 5, 6, 7]
    stepping.note_backward(0, 9, 9)
    stepping.note_forward(0, 10, 10)
    assert edge_starts(edges) == [4, 5, 6, 7]


def test_the_users_own_word_leads_before_all_else(edges: list[tuple[int, int, int]]) -> None:
    for number in range(10):
        stepping.note_step(0, 1, number)
        stepping.note_backward(0, 2, number)
        stepping.note_user_step(0, 1000 + number)
    assert edge_starts(edges) == [1, *range(1004, 1010)], (
        "until it was said five times, the optimizer"
    )


def test_backward_passes_are_marked_until_an_optimizer_anchors_and_when_it_stops() -> None:
    stepping.forget()
    for number in range(wire.MIN_ENDING_CALLS):
        assert stepping.wants_passes()
        stepping.note_step(0, number, number)
    wants = [stepping.wants_passes() for _ in range(stepping.FAR_CALLS + 2)]
    assert wants == [False] * stepping.FAR_CALLS + [True] * 2
    stepping.note_step(0, 9, 9)
    assert not stepping.wants_passes()
    stepping.forget()


def test_passes_end_the_steps_of_an_optimizer_whose_steps_take_seconds(
    edges: list[tuple[int, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_only(monkeypatch, "optimizer")
    distance_ns = wire.LONG_STEP_NS // wire.MIN_PASSES
    for number in range(24):
        stepping.note_backward(5, 2, number * distance_ns)
        if number % 8 == 7:
            stepping.note_step(0, 1, number * distance_ns + 1)
    assert edges == [(number, 2, number * distance_ns) for number in range(4, 24)]
    assert stepping.wants_passes()


def test_short_steps_of_several_passes_end_with_the_optimizer(
    edges: list[tuple[int, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_only(monkeypatch, "optimizer")
    for step in range(8):
        for call in range(8):
            stepping.note_backward(5, 2, (8 * step + call) * 1_000_000)
        stepping.note_step(0, 1, (8 * step + 8) * 1_000_000)
    assert edge_starts(edges) == [1] * 4
    assert not stepping.wants_passes()


def test_many_passes_before_a_training_of_short_steps_do_not_end_them(
    edges: list[tuple[int, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_only(monkeypatch, "optimizer")
    now = 0
    for _ in range(40):
        now += wire.LONG_STEP_NS // 10
        stepping.note_backward(5, 2, now)
    edges.clear()
    for _ in range(20):
        now += 1_000_000
        stepping.note_backward(6, 3, now)
        stepping.note_step(0, 1, now)
    assert edge_starts(edges) == [1] * 15  # the first of 20 followed the many passes
    assert not stepping.wants_passes()
