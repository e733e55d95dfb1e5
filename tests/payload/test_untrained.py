"""Modules that get gradients which no optimizer uses are facts; what may be used is none."""

from collections.abc import Callable

import torch
from torch import nn

from tests.payload import hooking


def train(make: Callable[[], tuple[nn.Module, nn.Module, torch.optim.Optimizer]]) -> list[object]:
    """Return what is told after twelve steps of a student that learns from a teacher."""
    with hooking.install_hooks("models", "evaluation") as recorder:
        student, teacher, optimizer = make()
        hooking.hook_module("models").register_optimizer(optimizer)
        for _ in range(12):
            optimizer.zero_grad()
            x = torch.ones(2, 4)
            (student(x) - teacher(x)).square().sum().backward()
            optimizer.step()
            recorder.edge()
        return [fact.values for fact in recorder.facts_about("untrained")]


def student_and_teacher() -> tuple[nn.Module, nn.Module]:
    return nn.Linear(4, 2).train(), nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)).eval()


def test_a_teacher_outside_no_grad_is_told_with_its_tensors() -> None:
    def make() -> tuple[nn.Module, nn.Module, torch.optim.Optimizer]:
        student, teacher = student_and_teacher()
        return student, teacher, torch.optim.SGD(student.parameters(), lr=0.1)

    kind = "torch.nn.modules.container.Sequential"
    assert train(make) == [{"class": kind, "tensors": 4, "parameters": 12 + 3 + 6 + 2}]


def test_a_backbone_whose_head_alone_is_trained_is_told_without_the_head() -> None:
    def make_backbone() -> tuple[nn.Module, nn.Module, torch.optim.Optimizer]:
        model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)).train()
        frozen = nn.Linear(4, 2).requires_grad_(requires_grad=False)
        return model, frozen, torch.optim.SGD(model[1].parameters(), lr=0.1)

    (fact,) = train(make_backbone)
    assert isinstance(fact, dict)
    assert fact["tensors"] == 2
    assert fact["parameters"] == 12 + 3


def test_what_does_not_ask_for_gradients_or_is_trained_is_not_told() -> None:
    def make_frozen() -> tuple[nn.Module, nn.Module, torch.optim.Optimizer]:
        student, teacher = student_and_teacher()
        teacher.requires_grad_(requires_grad=False)
        return student, teacher, torch.optim.SGD(student.parameters(), lr=0.1)

    def make_both() -> tuple[nn.Module, nn.Module, torch.optim.Optimizer]:
        student, teacher = student_and_teacher()
        parameters = [*student.parameters(), *teacher.parameters()]
        return student, teacher, torch.optim.SGD(parameters, lr=0.1)

    assert train(make_frozen) == []
    assert train(make_both) == []


def test_nothing_is_told_of_what_an_optimizer_may_update_by_copies() -> None:
    def make() -> tuple[nn.Module, nn.Module, torch.optim.Optimizer]:
        model = nn.Linear(4, 2).train()
        copy = nn.Parameter(torch.cat([item.detach().flatten() for item in model.parameters()]))
        copy.grad = torch.zeros_like(copy)
        return (
            model,
            nn.Linear(4, 2).requires_grad_(requires_grad=False),
            torch.optim.SGD([copy], lr=0.1),
        )

    assert train(make) == []
