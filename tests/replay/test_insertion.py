"""Anchors that a thread gets: between its own, and behind the last of them."""

import numpy as np
import pytest
from msgspec.structs import replace

from gapless.accounting.intervals import NO_LANE
from gapless.model.leaf import LEAF, LEAVES
from gapless.replay.edits.insertion import CallCost, Insert, insert_anchors
from gapless.replay.graph.nodes import Op
from tests.replay.graphs import PYTHON, Anchor, make_thread

_COST = CallCost(np.zeros(len(LEAVES), np.int64), 1, 4)


@pytest.mark.parametrize(
    ("instants", "ops", "segments_ns"),
    [
        ((40,), (Op.LAUNCH, Op.LAUNCH, Op.STEP), (40, 60, 100)),
        ((230,), (Op.LAUNCH, Op.STEP, Op.LAUNCH), (100, 100, 30)),
        (
            (150, 210, 230),
            (Op.LAUNCH, Op.LAUNCH, Op.STEP, Op.LAUNCH, Op.LAUNCH),
            (100, 50, 50, 10, 20),
        ),
    ],
    ids=["between", "behind", "both"],
)
def test_no_new_anchor_is_lost_and_its_thread_comes_there_when_it_did(
    instants: tuple[int, ...], ops: tuple[Op, ...], segments_ns: tuple[int, ...]
) -> None:
    thread = make_thread([Anchor(Op.LAUNCH, 0, 100), Anchor(Op.STEP, 0, 100)])
    at = np.array([100, 200])
    thread = replace(thread, begin=at, end=at)
    inserts = [Insert(instant, Op.LAUNCH, 7, _COST) for instant in reversed(instants)]
    longer = insert_anchors(thread, inserts, NO_LANE, 0)
    assert tuple(longer.ops) == ops
    assert tuple(longer.amounts[:, LEAF[PYTHON]]) == segments_ns
    assert longer.ops.dtype == thread.ops.dtype
    assert {len(getattr(longer, name)) for name in longer.__struct_fields__[1:-1]} == {len(ops)}
    assert int(longer.own_ns.sum()) == 4 * len(instants)


@pytest.mark.parametrize(("instant", "first_ns"), [(70, 30), (40, 0), (30, 0)])
def test_a_thread_without_anchors_gets_its_first_ones(instant: int, first_ns: int) -> None:
    inserts = [Insert(instant, Op.LAUNCH, 7, _COST)]
    longer = insert_anchors(make_thread([]), inserts, NO_LANE, 40)
    assert tuple(longer.ops) == (Op.LAUNCH,)
    assert tuple(longer.amounts[:, LEAF[PYTHON]]) == (first_ns,)
