"""Replays whose every nanosecond can be reckoned by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, field
from msgspec.structs import replace

from gapless.model.trace import Int64
from gapless.replay.graph.nodes import Graph, Op, SimulatedSteps
from gapless.replay.graph.simulate import StuckError, simulate
from tests.replay.graphs import Anchor, Job, launch_anchors, make_graph


def starts(simulated: SimulatedSteps) -> list[int]:
    return simulated.start.tolist()


def ends(simulated: SimulatedSteps) -> list[int]:
    return simulated.end.tolist()


def test_an_activity_starts_a_lag_after_its_launch_has_returned() -> None:
    simulated = simulate(make_graph(launch_anchors(0), acts=[Job(100, lag=3)]))
    assert starts(simulated) == [18]
    assert ends(simulated) == [118]
    assert simulated.threads[0].tolist() == [15]
    assert simulated.segment_starts[0].tolist() == [10]


def test_a_queued_activity_starts_a_gap_after_the_one_before() -> None:
    simulated = simulate(
        make_graph(launch_anchors(0, 1), acts=[Job(100, lag=3), Job(50, lag=3, gap=2)])
    )
    assert starts(simulated) == [18, 120]


@pytest.mark.parametrize(
    ("duration", "start"),
    [
        (5, 33),  # over at 23, long before the second comes at 33: its own lag alone
        (13, 34),  # over at 31, just before it comes: no longer than a lag behind that
        (17, 43),  # over at 35: it waited in the queue
    ],
)
def test_a_gap_is_of_what_came_before_the_other_was_over(duration: int, start: int) -> None:
    simulated = simulate(
        make_graph(launch_anchors(0, 1), acts=[Job(duration, lag=3), Job(50, lag=3, gap=8)])
    )
    assert starts(simulated) == [18, start]


@pytest.mark.parametrize(
    ("lag", "start"),
    [
        (2, 33),
        (1, 32),
        (0, 39),  # it comes at 30, while the other lasts until 31: it is queued
    ],
)
def test_what_comes_sooner_may_have_to_queue(lag: int, start: int) -> None:
    simulated = simulate(
        make_graph(launch_anchors(0, 1), acts=[Job(13, lag=3), Job(50, lag=lag, gap=8)])
    )
    assert starts(simulated) == [18, start]


def test_what_came_with_its_predecessor_follows_by_its_gap() -> None:
    simulated = simulate(
        make_graph(launch_anchors(0, 1), acts=[Job(13, lag=3), Job(50, lag=3, gap=8, slot=0)])
    )
    assert starts(simulated) == [18, 39]


def test_streams_run_beside_each_other() -> None:
    simulated = simulate(make_graph(launch_anchors(0, 1), acts=[Job(100), Job(50, stream=1)]))
    assert ends(simulated) == [115, 80]


def test_a_wait_for_another_stream_takes_a_hop() -> None:
    acts = [Job(100), Job(50, stream=1, after=(0,))]
    assert starts(simulate(make_graph(launch_anchors(0, 1), acts=acts, hop=4))) == [15, 119]


def test_what_nothing_explains_is_added() -> None:
    simulated = simulate(
        make_graph(launch_anchors(0, 1), acts=[Job(100, late=7), Job(50, gap=1, late=9)])
    )
    assert starts(simulated) == [22, 132]


def test_a_wait_for_what_is_not_enqueued_is_none() -> None:
    acts = [Job(50, after=(1,)), Job(100, stream=1)]
    assert starts(simulate(make_graph(launch_anchors(0, 1), acts=acts))) == [15, 30]


def test_a_synchronisation_waits_for_what_is_enqueued_by_then() -> None:
    sync = Anchor(Op.SYNC, -1, segment_ns=20, own_ns=6)
    simulated = simulate(
        make_graph([*launch_anchors(0), sync, *launch_anchors(1)], acts=[Job(100), Job(100)])
    )
    assert simulated.threads[0].tolist() == [15, 121, 136]
    assert starts(simulated) == [15, 136]


def test_a_synchronisation_of_one_stream_does_not_wait_for_another() -> None:
    sync = Anchor(Op.SYNC, 1, segment_ns=0, own_ns=0)
    simulated = simulate(
        make_graph([*launch_anchors(0, 1), sync], acts=[Job(100), Job(10, stream=1)])
    )
    assert simulated.threads[0].tolist() == [15, 30, 40]


def test_a_synchronisation_with_nothing_to_wait_for_costs_its_return() -> None:
    sync = Anchor(Op.SYNC, -1, segment_ns=500, own_ns=6)
    assert simulate(make_graph([*launch_anchors(0), sync], acts=[Job(100)])).threads[
        0
    ].tolist() == [15, 521]


def test_an_event_holds_the_host_until_its_activity_has_ended() -> None:
    waits = [
        Anchor(Op.EVENT, 0, segment_ns=1, own_ns=2),
        Anchor(Op.EVENT, -1, segment_ns=1, own_ns=2),
    ]
    simulated = simulate(make_graph([*launch_anchors(0, 1), *waits], acts=[Job(100), Job(100)]))
    assert simulated.threads[0].tolist() == [15, 30, 117, 120]


def test_a_blocking_copy_holds_the_host_until_it_has_ended() -> None:
    copy = Anchor(Op.COPY, 0, segment_ns=10, own_ns=4)
    simulated = simulate(make_graph([copy, *launch_anchors(1)], acts=[Job(100, lag=3), Job(10)]))
    assert starts(simulated) == [13, 132]
    assert simulated.threads[0].tolist() == [117, 132]


def test_a_copy_that_is_only_staged_returns_before_its_end() -> None:
    assert simulate(make_graph([Anchor(Op.COPY, 0, own_ns=-30)], acts=[Job(100)])).threads[
        0
    ].tolist() == [70]


def test_a_full_queue_holds_the_launch() -> None:
    acts = [Job(100), Job(100), Job(100)]
    simulated = simulate(make_graph(launch_anchors(0, 1, 2), acts=acts, capacity=2))
    assert simulated.threads[0].tolist() == [15, 30, 120]


def test_the_kernels_of_a_graph_take_one_place_in_the_queue() -> None:
    acts = [Job(100), Job(100, slot=0), Job(100, slot=0), Job(100)]
    anchors = [
        *launch_anchors(0),
        *launch_anchors(1, 2, segment_ns=0, own_ns=0),
        *launch_anchors(3),
    ]
    assert simulate(make_graph(anchors, acts=acts, capacity=2)).threads[0].tolist() == [
        15,
        15,
        15,
        30,
    ]


def test_what_was_enqueued_before_the_window_is_in_the_way() -> None:
    queued_graph = make_graph(
        launch_anchors(0, 1), acts=[Job(10, gap=1), Job(10, gap=1)], capacity=2
    )
    warm = replace(
        queued_graph, backlog_ends=np.array([500]), heads=(np.array([400, 500], np.int64),)
    )
    simulated = simulate(warm)
    assert starts(simulated) == [501, 512]
    assert simulated.threads[0].tolist() == [405, 505]


def test_a_step_ends_when_the_device_has_drained_what_was_launched() -> None:
    step_anchors = [Anchor(Op.STEP, index, segment_ns=5) for index in range(2)]
    anchors = [*launch_anchors(0), step_anchors[0], *launch_anchors(1), step_anchors[1]]
    assert simulate(make_graph(anchors, acts=[Job(100), Job(7)])).steps.tolist() == [115, 122]


def test_without_a_device_a_step_ends_on_the_thread() -> None:
    anchors = [Anchor(Op.STEP, 0, segment_ns=30), Anchor(Op.STEP, 1, segment_ns=20)]
    assert simulate(make_graph(anchors)).steps.tolist() == [30, 50]


def test_a_thread_waits_for_what_is_handed_to_it() -> None:
    main = [
        Anchor(Op.EMIT, 0, segment_ns=50, own_ns=1),
        Anchor(Op.WAIT, 1, segment_ns=5),
        *launch_anchors(0),
    ]
    helper = [Anchor(Op.WAIT, 0, own_ns=2), *launch_anchors(1), Anchor(Op.EMIT, 1, segment_ns=3)]
    simulated = simulate(make_graph(main, helper, acts=[Job(10), Job(10)]))
    assert simulated.threads[0].tolist() == [51, 71, 86]
    assert simulated.threads[1].tolist() == [53, 68, 71]


def test_threads_enqueue_in_the_order_of_their_clocks() -> None:
    main, helper = launch_anchors(0, segment_ns=30), launch_anchors(1, segment_ns=10)
    assert starts(simulate(make_graph(main, helper, acts=[Job(100), Job(100)]))) == [115, 15]


def test_threads_that_wait_for_ever_are_refused() -> None:
    main, helper = (
        [Anchor(Op.WAIT, 1), Anchor(Op.EMIT, 0)],
        [Anchor(Op.WAIT, 0), Anchor(Op.EMIT, 1)],
    )
    with pytest.raises(StuckError, match="2 of 2 threads"):
        simulate(make_graph(main, helper))


def test_what_tracing_cost_comes_off_each_event_and_a_launch_call() -> None:
    anchors = [
        Anchor(Op.LAUNCH, 0, segment_ns=10, own_ns=5, counts=4),
        Anchor(Op.STEP, 0, segment_ns=100, counts=6),
    ]
    traced_graph = make_graph(anchors, acts=[Job(1)])
    assert simulate(traced_graph, 2.0).threads[0].tolist() == [7, 95]
    assert simulate(traced_graph, 3.0).threads[0].tolist() == [3, 85]  # two of twelve from the call
    assert simulate(traced_graph, 9.0).threads[0].tolist() == [0, 46]


def test_a_stall_stays_whatever_tracing_cost() -> None:
    stalled_graph = make_graph([Anchor(Op.STEP, 0, segment_ns=10, counts=4, stall=1000)])
    assert simulate(stalled_graph, 5.0).steps.tolist() == [1000]


class PeriodicLoader(Struct):
    """A loader that has a batch each so many nanoseconds."""

    period_ns: int
    asks: list[int] = field(default_factory=list[int])

    def hand_over(self, ask_ns: int) -> int:
        self.asks.append(ask_ns)
        return max(ask_ns + 1, self.period_ns * len(self.asks))


def _make_data_graph(loader: int = -1) -> Graph:
    data_anchors = [
        Anchor(Op.ASK, loader, segment_ns=10),
        Anchor(Op.DATA, loader, segment_ns=70, own_ns=3),
    ]
    return make_graph(
        [
            *data_anchors,
            Anchor(Op.STEP, 0, segment_ns=5),
            *data_anchors,
            Anchor(Op.STEP, 1, segment_ns=5),
        ]
    )


def test_without_a_source_a_batch_takes_what_it_took() -> None:
    assert simulate(_make_data_graph()).steps.tolist() == [88, 176]


def test_a_source_is_asked_in_place_of_the_recorded_wait() -> None:
    source = PeriodicLoader(40)
    assert simulate(_make_data_graph(), sources={-1: source}).steps.tolist() == [45, 85]
    assert source.asks == [10, 55]


def test_a_loader_without_a_source_keeps_its_waits() -> None:
    assert simulate(_make_data_graph(3), sources={4: PeriodicLoader(40)}).steps.tolist() == [
        88,
        176,
    ]
    assert simulate(_make_data_graph(3), sources={3: PeriodicLoader(40)}).steps.tolist() == [45, 85]


_JOBS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 20), st.integers(1, 90), st.booleans()),
    min_size=1,
    max_size=12,
)


def _graph_of_jobs(jobs: list[tuple[int, int, int, bool]]) -> Graph:
    anchors = list[Anchor]()
    for index, (segment_ns, own_ns, _, sync) in enumerate(jobs):
        anchors.append(Anchor(Op.LAUNCH, index, segment_ns, own_ns))
        anchors += [Anchor(Op.SYNC, -1, 1, 2)] if sync else []
    acts = [Job(duration, lag=2, gap=1) for _, _, duration, _ in jobs]
    return make_graph([*anchors, Anchor(Op.STEP, 0, 1)], acts=acts, capacity=3)


def _last_end(graph: Graph) -> int:
    return int(simulate(graph).steps[-1])


def _with_columns(graph: Graph, **columns: Int64) -> Graph:
    return replace(graph, work=replace(graph.work, **columns))


@given(_JOBS, st.data())
def test_on_one_stream_less_work_is_never_slower(
    jobs: list[tuple[int, int, int, bool]], data: st.DataObject
) -> None:
    dropped_index = data.draw(st.integers(0, len(jobs) - 1))
    remaining_jobs = [job for index, job in enumerate(jobs) if index != dropped_index]
    assert not remaining_jobs or _last_end(_graph_of_jobs(remaining_jobs)) <= _last_end(
        _graph_of_jobs(jobs)
    )


@given(_JOBS, st.lists(st.integers(1, 5), min_size=12, max_size=12))
def test_longer_activities_are_never_faster(
    jobs: list[tuple[int, int, int, bool]], factors: list[int]
) -> None:
    job_graph = _graph_of_jobs(jobs)
    longer = _with_columns(
        job_graph, duration=job_graph.work.duration * np.array(factors[: len(jobs)])
    )
    assert _last_end(longer) >= _last_end(job_graph)


@given(_JOBS, st.integers(-1000, 1000))
def test_a_graph_that_begins_later_ends_as_much_later(
    jobs: list[tuple[int, int, int, bool]], later: int
) -> None:
    job_graph = _graph_of_jobs(jobs)
    assert _last_end(replace(job_graph, start=later)) == _last_end(job_graph) + later


@given(_JOBS)
def test_nothing_ends_before_host_or_device_could(jobs: list[tuple[int, int, int, bool]]) -> None:
    host = sum(segment_ns + own_ns + 3 * sync for segment_ns, own_ns, _, sync in jobs)
    device = sum(duration for _, _, duration, _ in jobs)
    assert _last_end(_graph_of_jobs(jobs)) >= max(host, device)
