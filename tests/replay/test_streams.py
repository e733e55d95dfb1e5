"""Streams in graphs of drawn traces: waits, queues, work without records. Times in ns."""

import numpy as np
import pytest

from gapless.replay.graph.nodes import Op
from gapless.replay.graph.simulate import simulate
from tests.accounting.drawing import Act, Call, Drawing, Frame, SyncRecord
from tests.replay.making import graph_of, with_durations


def test_a_recorded_wait_of_a_stream_is_an_edge() -> None:
    # Stream 9 waits for what stream 7 had been given when the event was recorded (A, not B).
    drawing = Drawing(
        [
            Act("A", 10_000, 500_000, Call(0, 6_000)),
            Act("B", 501_000, 900_000, Call(20_000, 26_000)),
            Act("C", 502_000, 600_000, Call(50_000, 56_000), stream=9),
        ],
        [
            Frame("op", 10_000, 12_000, name="cudaEventRecord", category=4, correlation=71),
            Frame("op", 40_000, 42_000, name="cudaStreamWaitEvent", category=4, correlation=72),
        ],
        [0, 60_000],
        syncs=[
            SyncRecord(
                40_000, 41_000, 72, 9, name="Stream Wait Event", wait_event=71, wait_stream=7
            )
        ],
    )
    graph = graph_of(drawing)
    assert graph.work.after == ((), (), (0,))
    # A takes 100,000 less: C may start so much earlier; B too.
    simulated = simulate(with_durations(graph, 390_000, 399_000, 98_000))
    assert simulated.start.tolist() == [10_000, 401_000, 402_000]


def _exchange_between(record: Frame, wait: Frame) -> tuple[tuple[int, ...], ...]:
    """Return what activities wait for, where the record of a wait does not say for which event."""
    drawing = Drawing(
        [
            Act("gradient", 10_000, 500_000, Call(0, 6_000)),
            Act("exchange", 560_000, 600_000, Call(50_000, 56_000), stream=9),
        ],
        [record, wait, Frame("op", 20_000, 58_000)],
        [0, 60_000],
        syncs=[SyncRecord(40_000, 41_000, 72, 9, name="Stream Wait Event")],
    )
    return graph_of(drawing).work.after


def test_a_wait_without_its_event_is_for_the_one_recorded_right_before() -> None:
    wait = Frame("op", 40_000, 42_000, name="cudaStreamWaitEvent", category=4, correlation=72)
    record = Frame("op", 30_000, 32_000, name="cudaEventRecordWithFlags", category=4)
    assert _exchange_between(record, wait) == ((), (0,))
    # Not for one that was recorded in another frame.
    earlier = Frame("op", 10_000, 12_000, name="cudaEventRecordWithFlags", category=4)
    assert _exchange_between(earlier, wait) == ((), ())


def test_lateness_that_nothing_explains_is_kept_and_told() -> None:
    drawing = Drawing(
        [
            *(
                Act(
                    f"{index}",
                    index * 100_000 + 10_000,
                    index * 100_000 + 20_000,
                    _make_call(index),
                )
                for index in range(8)
            ),
            Act("late", 890_000, 900_000, _make_call(8)),
        ],
        [],
        [0, 900_000],
    )
    graph = graph_of(drawing)
    assert simulate(graph).steps.tolist() == [900_000]
    assert graph.work.late.tolist() == [0] * 8 + [80_000]
    assert graph.unexplained == pytest.approx(80 / 900)


def _make_call(index: int) -> Call:
    return Call(index * 100_000, index * 100_000 + 6_000)


def test_what_was_enqueued_before_the_window_keeps_its_end() -> None:
    drawing = Drawing(
        [
            Act("head", -50, 400, Call(-100, -94)),
            Act("lost", 401, 500, None),
            Act("K", 501, 600, Call(20, 26)),
        ],
        [],
        [0, 300],
    )
    graph = graph_of(drawing)
    assert graph.backlog_ends.tolist() == [500]
    assert [head.tolist() for head in graph.heads] == [[400, 500]]
    assert simulate(graph).start.tolist() == [501]


def test_what_has_no_record_of_its_launch_follows_what_was_before_it() -> None:
    drawing = Drawing(
        [
            Act("K", 10, 100, Call(0, 6)),
            Act("lost", 103, 200, None),
            Act("L", 310, 400, Call(300, 306)),
        ],
        [],
        [0, 350],
    )
    graph = graph_of(drawing)
    assert graph.work.slot.tolist() == [1, 0, 1]
    assert simulate(graph).start.tolist() == [10, 103, 310]
    assert simulate(with_durations(graph, 190, 97, 90)).start.tolist()[:2] == [10, 203]


def test_the_kernels_of_a_graph_launch_are_one_call() -> None:
    call = Call(0, 50)
    drawing = Drawing(
        [
            Act("A", 60, 100, call, graph="g"),
            Act("B", 102, 200, call, graph="g"),
            Act("C", 202, 300, call, graph="g"),
        ],
        [],
        [0, 250],
    )
    graph = graph_of(drawing)
    assert graph.threads[0].own_ns.tolist() == [50, 0, 0, 0]
    assert graph.work.slot.tolist() == [1, 0, 0]
    assert simulate(graph).start.tolist() == [60, 102, 202]


def test_a_call_that_waits_for_room_in_the_queue_is_not_the_hosts() -> None:
    # Places for 600: each further call of 4,000 waits until another activity has ended.
    acts, now, ends = list[Act](), 0, list[int]()
    for index in range(1000):
        since = now
        now = max(now, ends[index - 600] if index >= 600 else 0) + 4_000
        start = max(now + 2_000, ends[-1] + 1_000 if ends else 0)
        ends.append(start + 100_000)
        acts.append(Act(f"{index}", start, start + 100_000, Call(since, now)))
    graph = graph_of(Drawing(acts, [], [0, now]))
    assert graph.capacity == (600,)
    own_ns = np.sort(graph.threads[0].own_ns[graph.threads[0].ops == Op.LAUNCH])
    assert (
        own_ns[:-1].tolist() == [4_000] * 999
    )  # one waited for less than can be told from a long call
    simulated = simulate(graph)
    assert abs(int(simulated.threads[0][-1]) - now) < 10_000
    faster = simulate(with_durations(graph, *[50_000] * 1000))
    assert int(faster.threads[0][-1]) < 0.55 * now
