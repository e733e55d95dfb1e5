"""Other buckets of gradients, in a window of two ranks that was recorded."""

import functools
import tempfile
from pathlib import Path

import pytest

from gapless.model.change import Bucket
from gapless.model.estimate import Estimate
from gapless.pricing.simulators.simulator import RunSimulator
from gapless.replay.edits.factors import fix_factor, open_factors
from gapless.replay.edits.gradients import find_passes
from gapless.replay.graph.nodes import Graph, Op
from gapless.replay.predict.identity import find_fault
from gapless.replay.predict.predict import predict
from gapless.replay.predict.scene import Scene, play_steps
from gapless.store.run.recordings import load
from gapless.store.run.unpack import unpack
from gapless.study import Options
from gapless.study.build_run import account_run, prices_of_run

RECORDS = Path(__file__).parents[1] / "jobs" / "records"
TINY, BY_HAND = "jobs-tiny-buckets-c", "jobs-by-hand-c"
NONE = Estimate(0.0, 0.0, 0.0)


def buckets(n_bytes: int, latency: float = 0.8, slowdown: Estimate = NONE) -> Bucket:
    return Bucket(n_bytes, n_bytes, Estimate(latency, latency, latency), slowdown)


@functools.cache
def scene_of(record: str) -> Scene:
    with tempfile.TemporaryDirectory() as folder:
        run = unpack(RECORDS / record / "run.tar.zst", Path(folder) / "run")
        account = account_run(load(run), Options(cache=False), lambda _: None)
        simulator = prices_of_run(account, cached=False).simulator
        assert isinstance(simulator, RunSimulator)
        assert simulator.windows is not None
        return simulator.windows.scenes[0]


def changed_graph(record: str, change: Bucket) -> Graph:
    ((graph, _),) = scene_of(record).weighted_graphs((change,))
    return graph


def step_ns(record: str, change: Bucket) -> float:
    scene = scene_of(record)
    return float(scene.changed_steps((change,), scene.alpha.mid).mean())


def plain_ns(record: str) -> float:
    scene = scene_of(record)
    return float(scene.unchanged_steps(scene.alpha.mid).mean())


def test_a_pass_holds_each_gradient_and_what_exchanges_it() -> None:
    for member in scene_of(TINY).ranks:
        passes = find_passes(member.view, member.rank.graph)
        assert [len(backward.jobs) for backward in passes] == [10, 10, 10]
        for backward in passes:
            assert backward.bytes.sum() == backward.job_bytes.sum() == 668_736
            assert (backward.ready[1:] > backward.ready[:-1]).all()
            assert len(backward.copies) == len(backward.ready) == 22
            assert not backward.is_by_hand


def test_the_same_buckets_take_the_same_time() -> None:
    assert step_ns(TINY, buckets(10_000)) == pytest.approx(plain_ns(TINY), rel=0.02)


def test_one_bucket_is_launched_once_a_pass_and_waited_for() -> None:
    graph = changed_graph(TINY, buckets(2**30))
    assert find_fault(graph) is None
    for span in graph.rank_spans:
        (thread,) = graph.threads[slice(*span.threads)]
        is_new = graph.work.meeting[thread.args[thread.ops == Op.LAUNCH]] >= 2**24
        assert is_new.sum() == 3


def test_fewer_calls_save_their_latency_and_more_bytes_at_once_hide_less() -> None:
    assert step_ns(TINY, buckets(2**30, latency=1.0)) < 0.9 * plain_ns(TINY)
    assert step_ns(TINY, buckets(2**30, latency=0.0)) > plain_ns(TINY)


def test_exchanges_by_hand_become_buckets_of_the_pass() -> None:
    for member in scene_of(BY_HAND).ranks:
        assert all(row.is_by_hand for row in find_passes(member.view, member.rank.graph))
    assert step_ns(BY_HAND, buckets(25 * 2**20)) < 0.4 * plain_ns(BY_HAND)


def test_what_is_hidden_slows_what_hides_it() -> None:
    change = buckets(100_000)
    slow = buckets(100_000, slowdown=Estimate(1.0, 1.0, 1.0))
    scene = scene_of(BY_HAND)
    assert step_ns(BY_HAND, slow) > step_ns(BY_HAND, change)
    assert step_ns(BY_HAND, slow) < float(play_steps(scene.graph, scene.alpha.mid).mean())


def test_both_of_its_intervals_are_open() -> None:
    change = Bucket(2**20, 2**20, Estimate(0.1, 0.2, 0.3), Estimate(0.0, 0.2, 0.5))
    assert open_factors((change,)) == ((0, "latency"), (0, "slowdown"))
    (low,) = fix_factor((change,), (0, "slowdown"), -1)
    assert isinstance(low, Bucket)
    assert (low.slowdown, low.latency) == (NONE, change.latency)
    prediction = predict((scene_of(TINY),), (change,))
    assert prediction.speedup is not None
    assert prediction.speedup.low < prediction.speedup.mid < prediction.speedup.high


def test_without_gradients_nothing_is_foretold() -> None:
    prediction = predict((scene_of("jobs-stages-four-c"),), (buckets(2**20),))
    assert prediction.speedup is None
    assert "when gradients are ready" in (prediction.refused or "")
