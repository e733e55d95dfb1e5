"""Runs without a device: the training thread is the row."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gapless.accounting import partition, sum_ledgers
from gapless.formats import read
from gapless.model import category
from gapless.model.leaf import LEAVES
from gapless.model.ledger import Ledger
from gapless.model.trace import Shape
from tests.accounting.drawing import Drawing, Frame, culprit_names, draw


def make_ledger(
    frames: list[Frame], steps: list[int], **options: tuple[tuple[int, int], ...]
) -> Ledger:
    inputs = draw(Drawing(frames=frames, steps=steps, lost=options.get("lost", ())))
    return partition(inputs.trace)


def account_leaves(
    frames: list[Frame], steps: list[int], **options: tuple[tuple[int, int], ...]
) -> dict[str, int]:
    return dict(sum_ledgers([make_ledger(frames, steps, **options)]).leaves)


def op(name: str, start: int, end: int, thread: str = "m", shape: Shape | None = None) -> Frame:
    return Frame("op", start, end, thread, name=name, shape=shape)


def test_operators_are_busy_by_their_root() -> None:
    frames = [
        op("aten::linear", 10, 40),
        op("aten::add", 20, 30),
        op("aten::add", 50, 60),
        Frame("opt", 70, 90),
        op("aten::mul_", 75, 80),
        Frame("sync", 92, 95),
    ]
    assert account_leaves(frames, [0, 100]) == {
        "idle.host.python": 10 + 10 + 10 + 2 + 5,
        "busy.math": 30,
        "busy.elementwise": 10,
        "idle.host.optimizer": 15,
        "busy.optimizer": 5,
        "idle.sync.return": 3,
    }


STRIDED = Shape(((8, 4), (8, 4)), ((4, 1), (1, 8)), ("float", "float"))
RECAST = Shape(((8, 4), (8, 4)), ((4, 1), (4, 1)), ("float", "c10::BFloat16"))


@pytest.mark.parametrize(
    ("name", "shape", "leaf"),
    [
        ("aten::cat", None, "mem"),
        ("aten::zero_", None, "mem"),
        ("aten::copy_", STRIDED, "layout"),
        ("aten::_to_copy", RECAST, "cast"),
        ("aten::convolution", None, "math"),
        ("aten::batch_norm", None, "norm_reduce"),
        ("aten::embedding", None, "index"),
        ("aten::bernoulli_", None, "other"),
        ("aten::dropout", None, "rng"),
        ("aten::relu_", None, "elementwise"),
        ("aten::threshold_backward", None, "elementwise"),
        ("aten::_foreach_norm", None, "gradclip_scaler"),
        ("aten::anything", None, "other"),
    ],
)
def test_an_operator_tells_its_class(name: str, shape: Shape | None, leaf: str) -> None:
    assert account_leaves([op(name, 0, 9, shape=shape)], [0, 9]) == {f"busy.{leaf}": 9}


def test_what_waits_within_a_differentiable_collective_communicates() -> None:
    frames = [
        op("aten::mul", 0, 10),
        op("_AllReduce", 10, 60),
        op("aten::clone", 12, 15),
        op("c10d::allreduce_", 15, 20),
        op("aten::mul", 60, 70),
    ]
    leaves = account_leaves(frames, [0, 70])
    assert leaves["idle.comm.host"] == 50
    assert leaves["busy.elementwise"] == 20


def test_a_lone_process_does_not_exchange_in_a_function_called_like_a_collective() -> None:
    frames = [op("_Gather", 10, 60), op("aten::mm", 12, 55)]
    leaves = account_leaves(frames, [0, 70])
    assert leaves["busy.math"] == 43
    assert "idle.comm.host" not in leaves


def test_nodes_of_the_engine_are_no_roots() -> None:
    node = "autograd::engine::evaluate_function: {}"
    frames = [
        op(node.format("AddmmBackward0"), 10, 50, "b"),
        op("AddmmBackward0", 12, 48, "b"),
        op("aten::mm", 20, 40, "b"),
        op(node.format("MulBackward0"), 60, 70, "b"),
        Frame("gc", 80, 90, "c"),
        op("aten::add", 5, 8),
    ]
    leaves = account_leaves(frames, [0, 100])
    assert leaves["busy.math"] == 20
    assert leaves["idle.host.dispatch"] == 20 + 10  # the nodes around it
    assert leaves["idle.host.engine"] == 10
    assert leaves["idle.gc"] == 10
    assert leaves["idle.host.python"] == 100 - 20 - 30 - 10 - 10 - 3


def test_the_engine_goes_from_node_to_node_on_the_calling_thread() -> None:
    node = "autograd::engine::evaluate_function: {}"
    frames = [
        op("aten::ones_like", 0, 10),
        op(node.format("AddmmBackward0"), 20, 30),
        op(node.format("ReluBackward0"), 33, 40),
        op("aten::add", 45, 50),
        op(node.format("AccumulateGrad"), 55, 60),
    ]
    leaves = account_leaves(frames, [0, 60])
    assert leaves["idle.host.engine"] == 3
    assert leaves["idle.host.python"] == 10 + 5 + 5


def test_the_training_thread_comes_before_the_engine() -> None:
    frames = [
        op("aten::mul", 10, 30),
        op("autograd::engine::evaluate_function: X", 20, 40, "b"),
        op("aten::mm", 21, 39, "b"),
    ]
    assert account_leaves(frames, [0, 50]) == {
        "idle.host.python": 10 + 10,
        "busy.elementwise": 20,
        "busy.math": 9,
        "idle.host.dispatch": 1,
    }


NODE = "autograd::engine::evaluate_function: AddmmBackward0"
STEP, CLEAR = "Optimizer.step#LBFGS.step", "Optimizer.zero_grad#LBFGS.zero_grad"


def user_range(name: str, start: int, end: int) -> Frame:
    return Frame("op", start, end, name=name, category=category.USER_ANNOTATION)


def test_what_a_step_calls_back_is_not_the_optimizer() -> None:
    frames = [
        op("aten::mul", 0, 10),
        user_range(STEP, 10, 100),
        op("aten::addmm", 20, 30),  # the closure: forward, from the step's begin on
        op(NODE, 40, 50, "b"),
        op("aten::mm", 42, 48, "b"),
        op("aten::add_", 60, 70),  # the optimizer's own
    ]
    assert account_leaves(frames, [0, 110]) == {
        "busy.elementwise": 10,
        "idle.host.python": 10 + 10 + 10,  # until the backward pass ends, and after the step
        "busy.math": 10 + 6,
        "idle.host.dispatch": 4,
        "busy.optimizer": 10,
        "idle.host.optimizer": 10 + 30,
    }


def test_a_closure_that_is_called_again_begins_where_gradients_are_cleared() -> None:
    frames = [
        user_range(STEP, 0, 200),
        user_range(CLEAR, 5, 10),
        op("aten::addmm", 20, 30),
        op(NODE, 40, 50, "b"),
        op("aten::dot", 60, 70),
        user_range(CLEAR, 80, 90),
        op("aten::addmm", 100, 110),
        op(NODE, 120, 130, "b"),
        op("aten::dot", 150, 160),
    ]
    leaves = account_leaves(frames, [0, 200])
    assert leaves["busy.math"] == 20
    assert leaves["busy.optimizer"] == 20
    assert leaves["idle.host.optimizer"] == (30 + 70 - 20) + (5 + 10)  # and what clears gradients


def test_a_step_without_a_backward_pass_is_all_the_optimizer() -> None:
    frames = [
        op(NODE, 0, 9, "b"),
        user_range(STEP, 10, 100),
        user_range(CLEAR, 20, 30),
        op("aten::add_", 60, 70),
    ]
    leaves = account_leaves(frames, [0, 110])
    assert leaves["busy.optimizer"] == 10
    assert leaves["idle.host.optimizer"] == 80


def test_there_is_no_debt_and_lost_time_is_unknown() -> None:
    ledger = make_ledger([Frame("sync", 0, 10), op("aten::mm", 20, 30)], [0, 50], lost=((35, 45),))
    assert sum_ledgers([ledger]).leaves["idle.unknown"] == 10
    assert set(ledger.facets.refill.tolist()) == {-1}


def test_a_silence_without_stacks_is_unframed() -> None:
    ms = 1_000_000
    frames = [op("aten::mm", 0, ms), op("aten::mm", 9 * ms, 10 * ms)]
    assert account_leaves(frames, [0, 10 * ms])["idle.host.unframed"] == 8 * ms
    python = Frame("py", 0, 10 * ms, id="python")
    inputs = draw(Drawing(frames=[*frames, python], steps=[0, 10 * ms]))
    ledger = partition(inputs.trace)
    assert sum_ledgers([ledger]).leaves["idle.host.python"] == 8 * ms
    assert culprit_names(ledger, "idle.host.python", inputs.event_names) == {"python"}


def test_the_row_has_no_device_and_no_part_of_one() -> None:
    ledger = make_ledger([op("aten::mm", 3, 8), Frame("opt", 8, 9)], [0, 10])
    assert [(row.device, row.start, row.end) for row in ledger.rows] == [(None, 0, 10)]
    assert ledger.launches_recorded is None
    assert set(ledger.facets.peer.tolist()) == {-1}


def test_a_real_training_without_a_device_sums(tmp_path: Path) -> None:
    path, script = tmp_path / "cpu.json", Path(__file__).with_name("train_on_cpu.py")
    subprocess.run([sys.executable, script, path], check=True, timeout=240)
    ledger = partition(read(path))
    totals = sum_ledgers([ledger])
    assert [row.device for row in ledger.rows] == [None] * 4
    assert totals.steps == 3
    assert (
        sum(totals.leaves.values())
        == totals.wall_ns
        == sum(r.end - r.start for r in ledger.rows[1:])
    )
    assert {"busy.math", "busy.optimizer"} <= set(totals.leaves)
    assert totals.busy_ns() > 0
    codes = {LEAVES[int(code)] for code in np.unique(ledger.leaf)}
    forbidden = ("copy.", "comm.", "idle.launch", "idle.device", "idle.graph", "idle.sync.refill")
    assert not [leaf for leaf in codes if leaf.startswith(forbidden)]
