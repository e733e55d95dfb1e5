"""Columns beside the leaf: phase, recomputation, hidden communication and copies."""

import pytest

from gapless.accounting import partition
from gapless.model import category as c
from gapless.model.ledger import PHASES, Ledger
from tests.accounting.drawing import Act, Call, Drawing, Frame, draw

NODE = "autograd::engine::evaluate_function: {}"
CHECKPOINT = NODE.format("CheckpointFunctionBackward")


def phase_of(frames: list[Frame], call: Call | None) -> tuple[str, int]:
    """Return the phase of an activity, and whether it is recomputation."""
    ledger = partition(draw(Drawing([Act("k", 60, 90, call)], frames, [0, 90])).trace)
    assert ledger.start[-1] == 60
    assert not ledger.facets.phase[:-1].any()
    return PHASES[int(ledger.facets.phase[-1])], int(ledger.facets.recompute[-1])


def op(name: str = "aten::mm", start: int = 20, end: int = 80, kind: int = c.CPU_OP) -> Frame:
    return Frame("op", start, end, name=name, category=kind)


CALL = Call(50, 51)


@pytest.mark.parametrize(
    ("frames", "phase"),
    [
        ([op()], "forward"),
        ([op(NODE.format("MmBackward0"), 10, 90), op()], "backward"),
        ([op("Optimizer.step#SGD.step", 10, 90, c.USER_ANNOTATION), op()], "optimizer"),
        ([], "unknown"),
        ([op(start=52)], "unknown"),
    ],
)
def test_the_phase_is_that_of_the_launch(frames: list[Frame], phase: str) -> None:
    assert phase_of(frames, CALL) == (phase, 0)


def test_an_unrecorded_launch_has_no_phase() -> None:
    assert phase_of([op()], None) == ("unknown", 0)


@pytest.mark.parametrize(
    ("frames", "again"),
    [
        ([op(CHECKPOINT, 10, 90), op()], 1),
        ([op(CHECKPOINT, 10, 90), op(NODE.format("MmBackward0"), 30, 70), op()], 0),
        ([op("torch/utils/checkpoint.py(1): recompute_fn", 10, 90, 3), op()], 1),
        ([op("torch/utils/checkpoint.py(1): unpack_hook", 10, 90, 3), op()], 1),
        ([op("torch/utils/checkpoint.py(1): checkpoint", 10, 90, 3), op()], 0),
    ],
)
def test_forward_work_inside_the_backward_is_recomputation(frames: list[Frame], again: int) -> None:
    assert phase_of(frames, CALL)[1] == again


def hidden_times(ledger: Ledger) -> list[tuple[int, int, int, int]]:
    columns = (ledger.start, ledger.end, ledger.facets.hidden_comm, ledger.facets.hidden_copy)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_what_runs_beneath_is_measured_once() -> None:
    acts = [
        Act("k", 0, 100, None),
        Act("n", 20, 60, None, "comm", stream=20),
        Act("o", 50, 140, None, "comm", stream=21),
        Act("h", 80, 120, None, "h2d", stream=22),
        Act("d", 110, 160, None, "d2h", stream=23),
    ]
    ledger = partition(draw(Drawing(acts, steps=[0, 160])).trace)
    assert hidden_times(ledger) == [(0, 100, 80, 20), (100, 140, 0, 40), (140, 160, 0, 0)]
