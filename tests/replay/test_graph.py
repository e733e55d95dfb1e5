"""Graphs of drawn traces, and replays of them that can be reckoned by hand. Times in ns."""

from collections.abc import Callable

import numpy as np
import pytest
from msgspec.structs import replace

from gapless.accounting import join_trace, partition
from gapless.model.leaf import LEAF
from gapless.replay.graph.build import build_graph
from gapless.replay.graph.nodes import Graph, GraphThread, Op, Refusal
from gapless.replay.graph.simulate import simulate
from tests.accounting.drawing import Act, Call, Drawing, Frame, draw
from tests.replay.making import graph_of, with_durations

EXACT: dict[str, Drawing] = {}

EXACT["two launches"] = Drawing(
    [Act("K1", 110, 160, Call(100, 106)), Act("K2", 310, 350, Call(300, 306))],
    [Frame("op", 90, 108), Frame("op", 290, 308)],
    [0, 350],
)
EXACT["a sync"] = Drawing(
    [Act("K1", 10, 1000, Call(0, 6)), Act("K2", 1310, 1400, Call(1300, 1306))],
    [Frame("sync", 20, 1005)],
    [0, 1400],
)
EXACT["a copy that blocks"] = Drawing(
    [
        Act("C", 160_000, 3_960_000, Call(10_000, 3_970_000), "h2d"),
        Act("K", 3_980_000, 4_900_000, Call(3_972_000, 3_978_000)),
    ],
    [Frame("to", 5_000, 3_971_000)],
    [0, 4_000_000],
)
EXACT["an autograd thread"] = Drawing(
    [
        Act("F", 40, 90, Call(30, 36)),
        Act("B", 240, 400, Call(230, 236, "a")),
        Act("O", 640, 700, Call(630, 636)),
    ],
    [
        Frame("op", 20, 50),
        Frame("op", 200, 300, "a"),
        Frame("op", 310, 500, "a"),
        Frame("op", 620, 650),
    ],
    [0, 800],
)


def rows_of_op(graph: Graph, op: Op, thread: int = 0) -> list[int]:
    return np.flatnonzero(graph.threads[thread].ops == op).tolist()


def edit_thread(graph: Graph, edit: Callable[[GraphThread], GraphThread], index: int = 0) -> Graph:
    threads = list(graph.threads)
    threads[index] = edit(threads[index])
    return replace(graph, threads=tuple(threads))


@pytest.mark.parametrize("name", EXACT)
def test_what_is_not_changed_is_replayed_to_the_nanosecond(name: str) -> None:
    graph = graph_of(EXACT[name])
    simulated = simulate(graph)
    assert simulated.steps.tolist() == graph.steps.tolist()
    assert simulated.start.tolist() == [act.start for act in EXACT[name].acts]
    for thread, ends in zip(graph.threads, simulated.threads, strict=True):
        assert ends.tolist() == thread.end.tolist()


def test_a_longer_activity_delays_what_comes_after_it_on_its_stream() -> None:
    # K1 110-1110; its stream is free for K2 at 1110, and a gap was never seen: 0.
    graph = with_durations(graph_of(EXACT["two launches"]), 1000, 40)
    assert simulate(graph).start.tolist() == [110, 1110]


def test_a_sync_waits_for_what_is_there_to_wait_for() -> None:
    # K1 10-110, the sync is over at 115; 295 of Python, a call of 6, a lag of 4: K2 420-510.
    graph = with_durations(graph_of(EXACT["a sync"]), 100, 90)
    simulated = simulate(graph)
    assert simulated.start.tolist() == [10, 420]
    assert simulated.steps.tolist() == [510]
    assert graph.threads[0].own_ns[rows_of_op(graph, Op.SYNC)].tolist() == [5]


def test_a_copy_that_blocks_holds_the_host_while_it_lasts() -> None:
    # The copy takes 1 ms, from 160,000: over at 1,160,000, the call 10,000 later.
    graph = with_durations(graph_of(EXACT["a copy that blocks"]), 1_000_000, 920_000)
    assert rows_of_op(graph, Op.COPY) == [0]
    assert simulate(graph).start.tolist() == [160_000, 1_180_000]


def test_an_autograd_thread_begins_and_ends_with_a_hand_off() -> None:
    # The burst is 200-500; 100 more in it delay all that follows on both threads.
    graph = graph_of(EXACT["an autograd thread"])
    assert [len(rows_of_op(graph, op)) for op in (Op.EMIT, Op.WAIT)] == [1, 1]
    assert [len(rows_of_op(graph, op, 1)) for op in (Op.EMIT, Op.WAIT)] == [1, 1]

    def slow_down(thread: GraphThread) -> GraphThread:
        amounts = thread.amounts.copy()
        amounts[rows_of_op(graph, Op.LAUNCH, 1)[0], LEAF["idle.host.dispatch"]] += 100
        return replace(thread, amounts=amounts)

    simulated = simulate(edit_thread(graph, slow_down, 1))
    assert simulated.start.tolist() == [40, 340, 740]
    assert simulated.steps.tolist() == [900]


def test_a_thread_that_works_beside_the_training_thread_is_not_waited_for() -> None:
    drawing = Drawing(
        [Act("A", 40, 90, Call(30, 36)), Act("B", 340, 400, Call(330, 336, "b"))],
        [
            Frame("op", 20, 50),
            Frame("op", 300, 500, "b"),
            Frame("op", 320, 350),
            Frame("op", 400, 420),
        ],
        [0, 800],
    )
    graph = graph_of(drawing)
    assert simulate(graph).steps.tolist() == [800]
    assert rows_of_op(graph, Op.WAIT) == []
    assert len(rows_of_op(graph, Op.WAIT, 1)) == 1


def test_backward_within_backward_is_handed_over_by_the_thread_that_waits_for_it() -> None:
    # "a" works 100-700 and waits for "b" 300-400; the training thread for "a".
    drawing = Drawing(
        [
            Act("A", 140, 200, Call(130, 136, "a")),
            Act("B", 340, 390, Call(330, 336, "b")),
            Act("C", 640, 690, Call(630, 636, "a")),
        ],
        [
            Frame("op", 20, 50),
            Frame("op", 100, 280, "a"),
            Frame("op", 300, 400, "b"),
            Frame("op", 420, 700, "a"),
            Frame("op", 750, 760),
        ],
        [0, 800],
    )
    graph = graph_of(drawing)
    simulated = simulate(graph)
    assert simulated.start.tolist() == [140, 340, 640]
    assert simulated.steps.tolist() == [800]
    assert [len(rows_of_op(graph, Op.WAIT, track)) for track in range(3)] == [1, 2, 1]


def test_waits_for_batches_lie_between_ask_and_hand_over() -> None:
    drawing = Drawing(
        [Act("K", 1110, 1200, Call(1100, 1106))],
        [Frame("data", 100, 1000), Frame("gc", 300, 400)],
        [0, 1500],
    )
    graph = graph_of(drawing)
    thread = graph.threads[0]
    (ask_row,), (data_row,) = rows_of_op(graph, Op.ASK), rows_of_op(graph, Op.DATA)
    assert (thread.end[ask_row], thread.begin[data_row]) == (100, 1000)
    assert thread.amounts[data_row, LEAF["idle.data.unstaged"]] == 800
    assert thread.amounts[data_row, LEAF["idle.gc"]] == 100


def test_a_training_without_devices_is_replayed_exactly() -> None:
    drawing = Drawing(
        [],
        [Frame("data0", 0, 300), Frame("op", 300, 900), Frame("opt", 900, 1200)],
        [0, 1300, 2600],
    )
    graph = graph_of(drawing)
    assert not graph.on_device
    assert simulate(graph).steps.tolist() == [1300, 2600]
    assert graph.threads[0].amounts.sum() == 2600
    assert graph.threads[0].amounts[:, LEAF["idle.data.main"]].sum() == 300


def test_what_holds_a_launch_call_belongs_to_the_segment() -> None:
    drawing = Drawing([Act("K", 1010, 1200, Call(100, 1000))], [Frame("gc", 200, 900)], [0, 1500])
    graph = graph_of(drawing)
    assert graph.threads[0].own_ns[0] == 200
    assert graph.threads[0].amounts[0, LEAF["idle.gc"]] == 700


def test_what_held_one_step_up_is_no_part_of_its_usual_cost() -> None:
    acts, frames, bounds = list[Act](), list[Frame](), [0]
    for step in range(5):
        start = bounds[-1] + (2_000_000 if step == 2 else 20_000)
        frames.append(Frame("op", start - 10_000, start + 8_000))
        acts.append(Act(f"{step}", start + 10_000, start + 50_000, Call(start, start + 6_000)))
        bounds.append(start + 60_000)
    graph = graph_of(Drawing(acts, frames, bounds))
    assert graph.is_aligned
    assert graph.threads[0].stall.tolist() == [0, 0, 0, 0, 1_980_000, 0, 0, 0, 0, 0]
    assert simulate(graph).steps.tolist() == graph.steps.tolist()


def test_steps_with_other_kernels_are_not_aligned() -> None:
    acts = [
        Act(
            f"{index}",
            index * 1000 + 60,
            index * 1000 + 100,
            Call(index * 1000 + 50, index * 1000 + 56),
            name=name,
        )
        for index, name in enumerate("abab")
    ]
    assert not graph_of(Drawing(acts, [], [0, 1000, 2000, 3000, 4000])).is_aligned


def test_a_trace_of_few_launches_is_refused() -> None:
    acts = [Act(f"{index}", index * 100, index * 100 + 50, None) for index in range(1, 9)]
    inputs = draw(Drawing([Act("K", 10, 60, Call(0, 6)), *acts], [], [0, 1000]))
    joined_trace = join_trace(inputs.trace)
    refusal = build_graph(joined_trace, partition(inputs.trace, joined_trace=joined_trace))
    assert isinstance(refusal, Refusal)
    assert "record of its launch" in refusal.reason


def test_a_trace_with_a_hole_is_refused() -> None:
    acts = [Act("K", 10, 60, Call(0, 6))]
    inputs = draw(Drawing(acts, [], [0, 1000], lost=((200, 300),)))
    joined_trace = join_trace(inputs.trace)
    refusal = build_graph(joined_trace, partition(inputs.trace, joined_trace=joined_trace))
    assert isinstance(refusal, Refusal)
    assert "missing in 10%" in refusal.reason
