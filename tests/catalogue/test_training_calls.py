"""Which sampled calls train, and which lines of the stepping function belong together."""

import pytest

from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.example_facts import cpu
from gapless.catalogue.queries.lines.training_calls import BACKWARD, is_late, is_training
from gapless.catalogue.queries.step_lines import find_step_lines
from gapless.model.host_code import CallLine, HostCode, HotLine

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


@pytest.mark.parametrize(("step_line", "is_aside"), [(31, True), (33, False)])
def test_a_derivative_is_aside_below_the_step_alone(step_line: int, *, is_aside: bool) -> None:
    call = CallLine("train.py", 32, "train", "torch/autograd/functional.py", "hvp", 0.4)
    step = CallLine("train.py", step_line, "train", "torch/optim/optimizer.py", "wrapper", 0.1)
    assert is_late(call, (CALLS[0], step, call)) is is_aside
    assert not is_late(call, (CALLS[0], call))  # parameters may be updated by hand


@pytest.mark.parametrize(
    ("file", "callee", "is_aside"),
    [
        ("apis", "grad.<locals>.wrapper", True),
        ("apis", "vmap.<locals>.wrapped", False),  # several models that act
        ("functional_call", "functional_call", False),
    ],
)
def test_calls_of_models_by_functions_are_no_derivatives(
    file: str, callee: str, *, is_aside: bool
) -> None:
    call = CallLine("train.py", 32, "train", f"torch/_functorch/{file}.py", callee, 0.4)
    assert is_late(call, (*CALLS, call)) is is_aside


def test_a_decorated_function_of_a_library_trains_only_where_it_is_of_torch() -> None:
    metric = CallLine("train.py", 34, "train", "sklearn/utils/_param_validation.py", "wrapper", 0.2)
    assert [is_training(call) for call in (*CALLS, metric)] == [True, True, False]


def test_lines_of_two_functions_are_no_loop() -> None:
    evidence = evidence_of(
        cpu(),
        {"busy.math": 20},
        CallLine("train.py", 10, "step_critic", "torch/_tensor.py", BACKWARD, 0.3),
        CallLine("train.py", 30, "step_actor", "torch/_tensor.py", BACKWARD, 0.3),
        forward(9, "step_critic", "LSTM"),
        HostCode("python", 0.3, 0.9, "train.py", 17, "step_critic", None, 0.3, 400),
        HotLine("training", "train.py", 17, "step_critic", 14, 0.035),
        HotLine("training", "train.py", 20, "step_actor", 18, 0.045),
    )
    assert [line.share.mid for line in find_step_lines(evidence)] == [0.045, 0.035]
