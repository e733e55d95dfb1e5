"""What is known of an optimizer at the end of its first step."""

import inspect

import pytest

from gapless.payload.hooks import optimizer

torch = pytest.importorskip("torch")
DESCRIBE = inspect.unwrap(optimizer.describe)  # a test beside may have let all guards go off


def test_parameters_that_ask_for_a_gradient_and_have_none_are_counted() -> None:
    used, unused, frozen = (torch.nn.Linear(3, 2) for _ in range(3))
    frozen.requires_grad_(requires_grad=False)
    parameters = [parameter for layer in (used, unused, frozen) for parameter in layer.parameters()]
    sgd = torch.optim.SGD(parameters, lr=0.1)
    used(torch.ones(1, 3)).sum().backward()
    values = DESCRIBE(sgd)
    assert (values["tensors"], values["parameters"]) == (6, 24)
    assert (values["ungraded"], values["ungraded_parameters"]) == (2, 8)


def test_gradients_that_the_step_itself_took_away_tell_nothing() -> None:
    sgd = torch.optim.SGD(torch.nn.Linear(3, 2).parameters(), lr=0.1)
    values = DESCRIBE(sgd)
    assert "ungraded" not in values
