"""Replays whose every nanosecond can be reckoned by hand."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.model.trace import Int64
from gapless.replay.nodes import Graph, Op, Played
from gapless.replay.simulate import StuckError, simulate
from tests.replay.graphs import A, W, graph, launched


def starts(played: Played) -> list[int]:
    return played.start.tolist()


def ends(played: Played) -> list[int]:
    return played.end.tolist()


def test_an_activity_starts_a_lag_after_its_launch_has_returned() -> None:
    played = simulate(graph(launched(0), acts=[W(100, lag=3)]))
    assert starts(played) == [18]
    assert ends(played) == [118]
    assert played.threads[0].tolist() == [15]
    assert played.begun[0].tolist() == [10]


def test_a_queued_activity_starts_a_gap_after_the_one_before() -> None:
    played = simulate(graph(launched(0, 1), acts=[W(100, lag=3), W(50, lag=3, gap=2)]))
    assert starts(played) == [18, 120]


@pytest.mark.parametrize(
    ("duration", "start"),
    [
        (5, 33),  # over at 23, long before the second comes at 33: its own lag alone
        (13, 34),  # over at 31, just before it comes: no longer than a lag behind that
        (17, 43),  # over at 35: it waited in the queue
    ],
)
def test_a_gap_is_of_what_came_before_the_other_was_over(duration: int, start: int) -> None:
    played = simulate(graph(launched(0, 1), acts=[W(duration, lag=3), W(50, lag=3, gap=8)]))
    assert starts(played) == [18, start]


@pytest.mark.parametrize(
    ("lag", "start"),
    [
        (2, 33),
        (1, 32),
        (0, 39),  # it comes at 30, while the other lasts until 31: it is queued
    ],
)
def test_what_comes_sooner_may_have_to_queue(lag: int, start: int) -> None:
    played = simulate(graph(launched(0, 1), acts=[W(13, lag=3), W(50, lag=lag, gap=8)]))
    assert starts(played) == [18, start]


def test_what_came_with_its_predecessor_follows_by_its_gap() -> None:
    played = simulate(graph(launched(0, 1), acts=[W(13, lag=3), W(50, lag=3, gap=8, slot=0)]))
    assert starts(played) == [18, 39]


def test_streams_run_beside_each_other() -> None:
    played = simulate(graph(launched(0, 1), acts=[W(100), W(50, stream=1)]))
    assert ends(played) == [115, 80]


def test_a_wait_for_another_stream_takes_a_hop() -> None:
    acts = [W(100), W(50, stream=1, after=(0,))]
    assert starts(simulate(graph(launched(0, 1), acts=acts, hop=4))) == [15, 119]


def test_what_nothing_explains_is_added() -> None:
    played = simulate(graph(launched(0, 1), acts=[W(100, late=7), W(50, gap=1, late=9)]))
    assert starts(played) == [22, 132]


def test_a_wait_for_what_is_not_enqueued_is_none() -> None:
    acts = [W(50, after=(1,)), W(100, stream=1)]
    assert starts(simulate(graph(launched(0, 1), acts=acts))) == [15, 30]


def test_a_synchronisation_waits_for_what_is_enqueued_by_then() -> None:
    sync = A(Op.SYNC, -1, before=20, own=6)
    played = simulate(graph([*launched(0), sync, *launched(1)], acts=[W(100), W(100)]))
    assert played.threads[0].tolist() == [15, 121, 136]
    assert starts(played) == [15, 136]


def test_a_synchronisation_of_one_stream_does_not_wait_for_another() -> None:
    sync = A(Op.SYNC, 1, before=0, own=0)
    played = simulate(graph([*launched(0, 1), sync], acts=[W(100), W(10, stream=1)]))
    assert played.threads[0].tolist() == [15, 30, 40]


def test_a_synchronisation_with_nothing_to_wait_for_costs_its_return() -> None:
    sync = A(Op.SYNC, -1, before=500, own=6)
    assert simulate(graph([*launched(0), sync], acts=[W(100)])).threads[0].tolist() == [15, 521]


def test_an_event_holds_the_host_until_its_activity_has_ended() -> None:
    waits = [A(Op.EVENT, 0, before=1, own=2), A(Op.EVENT, -1, before=1, own=2)]
    played = simulate(graph([*launched(0, 1), *waits], acts=[W(100), W(100)]))
    assert played.threads[0].tolist() == [15, 30, 117, 120]


def test_a_blocking_copy_holds_the_host_until_it_has_ended() -> None:
    copy = A(Op.COPY, 0, before=10, own=4)
    played = simulate(graph([copy, *launched(1)], acts=[W(100, lag=3), W(10)]))
    assert starts(played) == [13, 132]
    assert played.threads[0].tolist() == [117, 132]


def test_a_copy_that_is_only_staged_returns_before_its_end() -> None:
    assert simulate(graph([A(Op.COPY, 0, own=-30)], acts=[W(100)])).threads[0].tolist() == [70]


def test_a_full_queue_holds_the_launch() -> None:
    acts = [W(100), W(100), W(100)]
    played = simulate(graph(launched(0, 1, 2), acts=acts, capacity=2))
    assert played.threads[0].tolist() == [15, 30, 120]


def test_the_kernels_of_a_graph_take_one_place_in_the_queue() -> None:
    acts = [W(100), W(100, slot=0), W(100, slot=0), W(100)]
    rows = [*launched(0), *launched(1, 2, before=0, own=0), *launched(3)]
    assert simulate(graph(rows, acts=acts, capacity=2)).threads[0].tolist() == [15, 15, 15, 30]


def test_what_was_enqueued_before_the_window_is_in_the_way() -> None:
    made = graph(launched(0, 1), acts=[W(10, gap=1), W(10, gap=1)], capacity=2)
    warm = replace(made, begun=np.array([500]), heads=(np.array([400, 500], np.int64),))
    played = simulate(warm)
    assert starts(played) == [501, 512]
    assert played.threads[0].tolist() == [405, 505]


def test_a_step_ends_when_the_device_has_drained_what_was_launched() -> None:
    step = [A(Op.STEP, at, before=5) for at in range(2)]
    rows = [*launched(0), step[0], *launched(1), step[1]]
    assert simulate(graph(rows, acts=[W(100), W(7)])).steps.tolist() == [115, 122]


def test_without_a_device_a_step_ends_on_the_thread() -> None:
    rows = [A(Op.STEP, 0, before=30), A(Op.STEP, 1, before=20)]
    assert simulate(graph(rows)).steps.tolist() == [30, 50]


def test_a_thread_waits_for_what_is_handed_to_it() -> None:
    main = [A(Op.EMIT, 0, before=50, own=1), A(Op.WAIT, 1, before=5), *launched(0)]
    other = [A(Op.WAIT, 0, own=2), *launched(1), A(Op.EMIT, 1, before=3)]
    played = simulate(graph(main, other, acts=[W(10), W(10)]))
    assert played.threads[0].tolist() == [51, 71, 86]
    assert played.threads[1].tolist() == [53, 68, 71]


def test_threads_enqueue_in_the_order_of_their_clocks() -> None:
    main, other = launched(0, before=30), launched(1, before=10)
    assert starts(simulate(graph(main, other, acts=[W(100), W(100)]))) == [115, 15]


def test_threads_that_wait_for_ever_are_refused() -> None:
    main, other = [A(Op.WAIT, 1), A(Op.EMIT, 0)], [A(Op.WAIT, 0), A(Op.EMIT, 1)]
    with pytest.raises(StuckError, match="2 of 2 threads"):
        simulate(graph(main, other))


def test_what_tracing_cost_comes_off_each_event_and_a_launch_call() -> None:
    rows = [A(Op.LAUNCH, 0, before=10, own=5, counts=4), A(Op.STEP, 0, before=100, counts=6)]
    made = graph(rows, acts=[W(1)])
    assert simulate(made, 2.0).threads[0].tolist() == [7, 95]
    assert simulate(made, 3.0).threads[0].tolist() == [3, 85]  # two of twelve from the call
    assert simulate(made, 9.0).threads[0].tolist() == [0, 46]


def test_a_stall_stays_whatever_tracing_cost() -> None:
    made = graph([A(Op.STEP, 0, before=10, counts=4, stall=1000)])
    assert simulate(made, 5.0).steps.tolist() == [1000]


@dataclass
class Every:
    """A loader that has a batch each so many nanoseconds."""

    each: int
    asked: list[int] = field(default_factory=list[int])

    def got(self, ask_ns: int) -> int:
        self.asked.append(ask_ns)
        return max(ask_ns + 1, self.each * len(self.asked))


def _with_data(loader: int = -1) -> Graph:
    one = [A(Op.ASK, loader, before=10), A(Op.DATA, loader, before=70, own=3)]
    return graph([*one, A(Op.STEP, 0, before=5), *one, A(Op.STEP, 1, before=5)])


def test_without_a_source_a_batch_takes_what_it_took() -> None:
    assert simulate(_with_data()).steps.tolist() == [88, 176]


def test_a_source_is_asked_in_place_of_the_recorded_wait() -> None:
    source = Every(40)
    assert simulate(_with_data(), sources={-1: source}).steps.tolist() == [45, 85]
    assert source.asked == [10, 55]


def test_a_loader_without_a_source_keeps_its_waits() -> None:
    assert simulate(_with_data(3), sources={4: Every(40)}).steps.tolist() == [88, 176]
    assert simulate(_with_data(3), sources={3: Every(40)}).steps.tolist() == [45, 85]


_JOBS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 20), st.integers(1, 90), st.booleans()),
    min_size=1,
    max_size=12,
)


def _program(jobs: list[tuple[int, int, int, bool]]) -> Graph:
    rows = list[A]()
    for at, (before, own, _, sync) in enumerate(jobs):
        rows.append(A(Op.LAUNCH, at, before, own))
        rows += [A(Op.SYNC, -1, 1, 2)] if sync else []
    acts = [W(duration, lag=2, gap=1) for _, _, duration, _ in jobs]
    return graph([*rows, A(Op.STEP, 0, 1)], acts=acts, capacity=3)


def _last(made: Graph) -> int:
    return int(simulate(made).steps[-1])


def _with(made: Graph, **columns: Int64) -> Graph:
    return replace(made, work=replace(made.work, **columns))


@given(_JOBS, st.data())
def test_on_one_stream_less_work_is_never_slower(
    jobs: list[tuple[int, int, int, bool]], data: st.DataObject
) -> None:
    gone = data.draw(st.integers(0, len(jobs) - 1))
    without = [one for at, one in enumerate(jobs) if at != gone]
    assert not without or _last(_program(without)) <= _last(_program(jobs))


@given(_JOBS, st.lists(st.integers(1, 5), min_size=12, max_size=12))
def test_longer_activities_are_never_faster(
    jobs: list[tuple[int, int, int, bool]], factors: list[int]
) -> None:
    made = _program(jobs)
    longer = _with(made, duration=made.work.duration * np.array(factors[: len(jobs)]))
    assert _last(longer) >= _last(made)


@given(_JOBS, st.integers(-1000, 1000))
def test_a_graph_that_begins_later_ends_as_much_later(
    jobs: list[tuple[int, int, int, bool]], later: int
) -> None:
    made = _program(jobs)
    assert _last(replace(made, start=later)) == _last(made) + later


@given(_JOBS)
def test_nothing_ends_before_host_or_device_could(jobs: list[tuple[int, int, int, bool]]) -> None:
    host = sum(before + own + 3 * sync for before, own, _, sync in jobs)
    device = sum(duration for _, _, duration, _ in jobs)
    assert _last(_program(jobs)) >= max(host, device)
