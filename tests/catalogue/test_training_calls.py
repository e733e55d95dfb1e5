"""Whether networks that are called below the optimizer's step train."""

import pytest

from gapless.catalogue.queries.lines.training_calls import BACKWARD, is_late
from gapless.model.host_code import CallLine

CALLS = (
    CallLine("train.py", 30, "train", "torch/_tensor.py", BACKWARD, 0.3),
    CallLine("train.py", 31, "train", "torch/optim/optimizer.py", "wrapper", 0.1),
)


def forward(line: int, function: str, network: str) -> CallLine:
    return CallLine("train.py", line, function, "torch/nn/modules/x.py", f"{network}.forward", 0.2)


@pytest.mark.parametrize(
    ("others", "is_aside"),
    [
        ((), False),  # a loop that begins with the backward pass
        ((forward(12, "compute_loss", "Sequential"),), False),  # it acts, and trains elsewhere
        ((forward(12, "compute_loss", "LSTM"),), True),
        ((forward(25, "train", "Net"), forward(9, "Net.forward", "Sequential")), True),
    ],
)
def test_a_network_below_the_step_is_aside_if_another_one_trains(
    others: tuple[CallLine, ...], is_aside: bool
) -> None:
    call = forward(34, "train", "Sequential")
    assert is_late(call, (*CALLS, *others, call)) is is_aside
