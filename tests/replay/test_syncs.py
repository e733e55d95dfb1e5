"""What the host waits for: streams, events, freed memory. Times in ns."""

import numpy as np

from gapless.model.category import RUNTIME
from gapless.replay.graph.nodes import Graph, Op
from gapless.replay.graph.queue_capacity import QUEUE_CAPACITY
from gapless.replay.graph.simulate import simulate
from tests.accounting.drawing import Act, Call, Drawing, Frame, SyncRecord
from tests.replay.making import graph_of, with_durations

# Stream 7 is at work 10-500, stream 9 110-300; then the host waits.
TWO_STREAMS = [
    Act("A", 10, 500, Call(0, 6)),
    Act("B", 110, 300, Call(100, 106), stream=9),
]


def list_waits(graph: Graph) -> list[tuple[Op, int, int]]:
    thread = graph.threads[0]
    rows = np.flatnonzero(np.isin(thread.ops, (Op.SYNC, Op.EVENT))).tolist()
    return [(Op(thread.ops[row]), int(thread.args[row]), int(thread.own_ns[row])) for row in rows]


def sync(start: int, end: int, name: str, correlation: int = -1) -> Frame:
    return Frame("sync", start, end, name=name, category=RUNTIME, correlation=correlation)


def test_a_device_wide_sync_waits_for_all_streams() -> None:
    graph = graph_of(Drawing(TWO_STREAMS, [sync(200, 505, "cudaDeviceSynchronize")], [0, 600]))
    assert list_waits(graph) == [(Op.SYNC, -1, 5)]
    assert simulate(with_durations(graph, 90, 690)).steps.tolist() == [
        900
    ]  # B ends at 800: 300 later


def test_a_sync_of_one_stream_is_of_the_one_that_was_through_last() -> None:
    graph = graph_of(Drawing(TWO_STREAMS, [sync(200, 305, "cudaStreamSynchronize")], [0, 600]))
    assert list_waits(graph) == [(Op.SYNC, 1, 5)]
    assert graph.streams[1] == (0, 9)


def test_the_devices_record_of_a_sync_names_the_stream() -> None:
    drawing = Drawing(
        TWO_STREAMS,
        [sync(520, 530, "cudaStreamSynchronize", 44)],
        [0, 600],
        syncs=[SyncRecord(520, 530, 44, 9)],
    )
    assert list_waits(graph_of(drawing)) == [(Op.SYNC, 1, 10)]


def test_an_event_that_was_recorded_stands_for_what_was_enqueued_before_it() -> None:
    drawing = Drawing(
        [*TWO_STREAMS, Act("C", 501, 900, Call(150, 156))],
        [
            Frame("op", 120, 125, name="cudaEventRecord", category=RUNTIME, correlation=70),
            sync(200, 505, "cudaEventSynchronize", 71),
        ],
        [0, 1000],
        syncs=[SyncRecord(200, 505, 71, 7, name="Event Sync", wait_event=70, wait_stream=7)],
    )
    graph = graph_of(drawing)
    assert list_waits(graph) == [(Op.EVENT, 0, 5)]
    assert simulate(graph).steps.tolist() == [1000]


def test_without_a_record_an_event_is_of_what_ended_last() -> None:
    graph = graph_of(Drawing(TWO_STREAMS, [sync(200, 305, "cudaEventSynchronize")], [0, 600]))
    assert list_waits(graph) == [(Op.EVENT, 1, 5)]


def test_a_sync_that_returns_while_all_streams_are_at_work_waited_for_nothing() -> None:
    graph = graph_of(Drawing(TWO_STREAMS, [sync(200, 210, "cudaStreamSynchronize")], [0, 600]))
    assert list_waits(graph) == [(Op.EVENT, -1, 10)]


def test_freed_memory_waits_for_the_device_and_allocated_memory_where_it_runs_dry() -> None:
    frames = [
        Frame("free", 520, 540),
        Frame("alloc", 545, 560),
        Frame("alloc", 600, 720),
    ]
    acts = [*TWO_STREAMS, Act("C", 601, 700, Call(580, 590))]
    assert list_waits(graph_of(Drawing(acts, frames, [0, 800]))) == [
        (Op.SYNC, -1, 20),
        (Op.SYNC, -1, 20),
    ]


def test_a_sync_inside_a_copy_that_blocks_is_part_of_it() -> None:
    drawing = Drawing(
        [Act("C", 60_000, 100_000, Call(10_000, 110_000), "d2h")],
        [sync(20_000, 105_000, "cudaStreamSynchronize")],
        [0, 200_000],
    )
    graph = graph_of(drawing)
    assert list_waits(graph) == []
    assert graph.threads[0].ops[0] == Op.COPY


def test_work_before_the_window_that_nobody_recorded_is_reckoned() -> None:
    # The first kernel comes 5 ms after its launch: the stream was busy with the work of before.
    # From the twentieth call on the queue was full: each waited 100,000 for one of those to end.
    acts, now, first_start = list[Act](), 0, 5_000_000
    for index in range(60):
        since, now = now, now + (4_000 if index < 20 else 100_000)
        acts.append(
            Act(
                f"{index}",
                first_start + index * 90_000,
                first_start + index * 90_000 + 89_000,
                Call(since, now),
            )
        )
        now += 1_000
    second_start = first_start + 60 * 90_000
    acts += [
        Act(
            f"next {index}",
            second_start + index * 9_000,
            second_start + index * 9_000 + 8_000,
            _make_call(now, index),
        )
        for index in range(20)
    ]
    graph = graph_of(Drawing(acts, [], [0, now, now + 120_000]))
    assert graph.backlog_ends.tolist() == [first_start]
    assert len(graph.heads[0]) == QUEUE_CAPACITY - 20
    assert set(graph.threads[0].own_ns[graph.threads[0].ops == Op.LAUNCH].tolist()) == {4_000}
    simulated = simulate(graph)
    ends = graph.threads[0].end
    assert np.abs(simulated.threads[0][:60] - ends[:60]).max() < 5_000
    assert np.abs(simulated.start - np.array([act.start for act in acts])).max() == 0


def _make_call(now: int, index: int) -> Call:
    return Call(now + index * 5_000, now + index * 5_000 + 4_000)
