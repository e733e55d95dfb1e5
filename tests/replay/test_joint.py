"""Ranks replayed together: collectives wait for the last one, whatever else is changed."""

from collections.abc import Sequence
from unittest.mock import MagicMock

import numpy as np
import pytest
from msgspec.structs import replace

from gapless.model.change import Delay, Drop
from gapless.model.leaf import LEAF
from gapless.replay.edits.evening import STRAGGLER_LEAVES, even_out, saved_by_evening
from gapless.replay.graph.anchors import make_anchors, order_anchors
from gapless.replay.graph.joining import RankGraph, join_graphs
from gapless.replay.graph.nodes import Graph, Op, Refusal
from gapless.replay.graph.simulate import StuckError, simulate
from gapless.replay.predict import joint_scene
from gapless.replay.predict.joint_scene import make_joint_scene
from gapless.replay.predict.scene import NO_CHECK, PlainTarget, RankScene, Scene, usual_alpha
from gapless.study import Options
from gapless.study.opening import open_study
from tests.replay.graphs import Anchor, Job, make_graph
from tests.traces import TRACES

TRANSFER = 30


def make_rank(work_ns: Sequence[int], meetings: Sequence[int] = (0, 1)) -> Graph:
    """Make a rank that computes, then reduces, in each of some steps."""
    anchors: list[Anchor] = []
    for job, segment_ns in enumerate(work_ns):
        anchors += [
            Anchor(Op.LAUNCH, job, segment_ns),
            Anchor(Op.SYNC, 0),
            Anchor(Op.STEP, job),
        ]
    graph = make_graph(anchors, acts=[Job(TRANSFER)] * len(work_ns))
    meeting = np.array(meetings, np.int32)
    leaf = np.full(len(work_ns), LEAF["comm.exposed"], np.int8)
    return replace(graph, work=replace(graph.work, meeting=meeting, leaf=leaf))


def join(*graphs: Graph, shifts: Sequence[int] = (0, 0)) -> Graph:
    ranks = [RankGraph(graph, shift) for graph, shift in zip(graphs, shifts, strict=True)]
    return join_graphs(ranks)


def test_a_collective_ends_its_transfer_after_the_last_rank_has_come() -> None:
    simulated = simulate(join(make_rank([10, 50]), make_rank([40, 20])))
    # The first is met at 40, the second at 70 + 50: rank 0 is the last then.
    assert simulated.start.tolist() == [10, 120, 40, 90]
    assert simulated.end.tolist() == [70, 150, 70, 150]
    assert simulated.steps.tolist() == [70, 150]


def test_ranks_need_not_have_the_same_clock() -> None:
    late = make_rank([40, 20])
    shifted = replace(late, start=1000, steps=late.steps + 1000)
    joint = simulate(join(make_rank([10, 50]), shifted, shifts=(0, 1000)))
    assert joint.end.tolist() == [70, 150, 70, 150]


def test_without_its_part_of_a_collective_a_rank_waits_for_nobody() -> None:
    alone = simulate(join(make_rank([10, 50]), make_rank([400, 20], meetings=(-1, -1))))
    assert alone.end.tolist() == [40, 120, 430, 480]


def test_ranks_that_meet_in_opposite_orders_are_stuck() -> None:
    with pytest.raises(StuckError):
        simulate(join(make_rank([10, 10]), make_rank([10, 10], meetings=(1, 0))))


def test_a_rank_waits_in_processing_and_not_in_time() -> None:
    # Rank 0 is far ahead: its later launches come after the collective on its stream alone.
    ahead = make_rank([10, 50])
    asynchronous = replace(
        ahead,
        threads=(
            replace(
                ahead.threads[0],
                ops=np.where(ahead.threads[0].ops == Op.SYNC, Op.ASK, ahead.threads[0].ops).astype(
                    np.int8
                ),
            ),
        ),
    )
    simulated = simulate(join(asynchronous, make_rank([400, 20])))
    assert simulated.threads[0].tolist() == [10, 10, 10, 60, 60, 60]
    assert simulated.end.tolist() == [430, 480, 430, 480]


def test_evening_out_takes_the_excess_of_the_late_rank_alone() -> None:
    graphs = [make_rank([10, 10]), make_rank([10, 90])]
    evened = even_out(graphs, late=1)
    assert [int(graph.threads[0].amounts[3:].sum()) for graph in evened] == [10, 10]
    kept = even_out(graphs, late=1, keep=0.5)
    assert int(kept[1].threads[0].amounts[3:].sum()) == 50
    steps = simulate(join(*evened)).steps
    assert int(steps[1] - steps[0]) < 90
    assert saved_by_evening(graphs, late=1, keep=0.5) == 40
    slower = [replace(graph, pace=0.5) for graph in graphs]
    assert saved_by_evening(slower, late=1, keep=0.5) == 80


def test_what_a_late_rank_does_more_in_few_of_its_steps_is_saved_in_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ranks = [
        RankScene(MagicMock(), RankGraph(make_rank(work_ns, meetings=(0, 1, 2)), 0))
        for work_ns in ([9, 9, 9], [9, 9, 99])
    ]
    graph = join_graphs([member.rank for member in ranks])
    scene = Scene(
        MagicMock(),
        graph,
        NO_CHECK,
        usual_alpha(),
        anchored=False,
        ranks=tuple(ranks),
        late_rank=1,
    )
    unchanged_ns = scene.unchanged_steps(0)
    saved_ns = saved_by_evening([member.rank.graph for member in ranks], 1, 0.0)
    evened = [Drop(STRAGGLER_LEAVES)]
    even_steps = np.full_like(unchanged_ns, unchanged_ns.mean() - saved_ns)
    assert scene.limit_evening(even_steps, evened, 0).tolist() == even_steps.tolist()
    assert scene.limit_evening(0 * even_steps, evened, 0).tolist() == even_steps.tolist()

    def weigh_graphs(*_: object) -> tuple[tuple[Graph, float], ...]:
        return ((graph, 0.5), (graph, 1.0))

    monkeypatch.setattr(Scene, "weighted_graphs", weigh_graphs)
    both = scene.limit_evening(0 * even_steps, [*evened, Delay(5)], 0)
    assert both.mean() == pytest.approx(1.5 * unchanged_ns.mean() - saved_ns)


def test_what_others_do_while_they_wait_counts_as_far_as_it_is_said_to() -> None:
    hidden = make_rank([10, 60])
    late = make_rank([10, 20])
    slow = replace(late, work=replace(late.work, duration=late.work.duration * 4))
    assert int(even_out([hidden, slow], late=1)[0].threads[0].amounts[3:].sum()) == 20
    whole = even_out([hidden, slow], late=1, hidden=1.0)
    assert int(whole[0].threads[0].amounts[3:].sum()) == 60


def test_waits_are_no_work_that_could_be_evened_out() -> None:
    graphs = [make_rank([10, 10]), make_rank([10, 10])]
    longer = replace(graphs[1], work=replace(graphs[1].work, duration=np.array([500, 500])))
    assert even_out([graphs[0], longer], late=1)[1].work.duration.tolist() == [500, 500]


def test_what_a_thread_waits_for_is_launched_before_it_waits() -> None:
    rows = [(0, Op.LAUNCH, 0, -1, 50, 50, 0), (0, Op.EVENT, 0, -1, 50, 90, 5)]
    anchors = order_anchors(make_anchors(rows), 0, MagicMock(start=0))
    assert anchors.op.tolist() == [Op.LAUNCH, Op.EVENT]


def test_two_real_ranks_are_replayed_within_the_bar() -> None:
    paths = [TRACES[f"two_ranks.rank{rank}"] for rank in (0, 1)]
    study = open_study(paths, Options(cache=False))
    first, second = study.rank_work
    assert first.flops == second.flops > 0
    assert first.is_steady
    diagnosis = study.diagnosis
    assert diagnosis is not None
    fidelity = diagnosis.fidelity
    assert fidelity is not None
    assert fidelity.refused is None
    assert fidelity.windows == 1
    assert fidelity.imputed is not None
    assert abs(fidelity.imputed) < 0.02


def make_two_threads(n_events: int) -> Graph:
    """Make a rank of which two threads meet others, the second after so many events."""
    threads = [
        [Anchor(Op.LAUNCH, job, segment_ns, counts=count), Anchor(Op.SYNC, 0), Anchor(Op.STEP, 0)]
        for job, segment_ns, count in ((0, 500_000, 0), (1, 900_000, n_events))
    ]
    graph = make_graph(*threads, acts=[Job(TRANSFER)] * 2)
    leaf = np.full(2, LEAF["comm.exposed"], np.int8)
    meeting = np.array([0, 1], np.int32)
    return replace(graph, work=replace(graph.work, meeting=meeting, leaf=leaf))


def test_ranks_that_are_stuck_once_tracing_costs_nothing_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graphs = [make_two_threads(0), make_two_threads(400)]
    ended = simulate(join(*graphs)).steps
    ranks = [RankGraph(replace(graph, steps=ended), 0) for graph in graphs]
    monkeypatch.setattr(joint_scene, "meet_ranks", MagicMock(return_value=ranks))
    for function in ("build_explained_graph", "view_of"):
        monkeypatch.setattr(joint_scene, function, MagicMock())
    refusal = make_joint_scene([MagicMock(first_step=None)] * 2, PlainTarget(500_000))
    assert isinstance(refusal, Refusal)
    assert "wait for ever" in refusal.reason
