"""Training and evaluation as marks, and which module is the model: ``evaluation``, ``models``."""

import contextlib
import copy
import gc
import inspect
import pickle
import sys
import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import torch
from torch import nn

from gapless import wire
from gapless.payload import stepping
from tests.payload import hooking


class Net(nn.Module):
    """A model with a frozen part and an overridden ``train``."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.head = nn.Linear(4, 2)

    def train(self, mode: bool = True) -> "Net":  # noqa: FBT002 - torch's form
        super().train(mode)
        self.features[1].eval()
        return self


class Broken(nn.Module):
    def train(self, mode: bool = True) -> "Broken":  # noqa: FBT002 - torch's form
        raise RuntimeError(f"cannot be told {mode}")


def train_step(model: nn.Module) -> torch.optim.Optimizer:
    """Train by one step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    hooking.hook_module("models").register_optimizer(optimizer)
    return optimizer


def test_modes_before_the_first_step_are_told_when_the_model_is_known() -> None:
    with hooking.install_hooks("models", "evaluation") as recorder:
        model = Net()
        model.train()
        assert recorder.marks_of(wire.MODE) == []
        optimizer = train_step(model)
        recorder.edge()
        model.eval()
        model.eval()
        model.train()
    assert [mark.value for mark in recorder.marks_of(wire.MODE)] == [1, 0, 1]
    starts = [mark.start for mark in recorder.marks_of(wire.MODE)]
    assert starts == sorted(starts)
    assert len(recorder.facts_about("model")) == 1
    assert not model.features[1].training
    del optimizer


def test_the_model_is_the_module_that_owns_the_optimizers_parameters() -> None:
    with hooking.install_hooks("models", "evaluation") as recorder:
        transform = nn.Sequential(nn.Identity(), nn.ReLU()).eval()
        loss = nn.CrossEntropyLoss().train()
        model = Net().to("cpu")
        model.features.eval()
        optimizer = train_step(model)
        recorder.edge()
        transform.train()
        model.features.train()
        loss.eval()
        model.train()
    (fact,) = recorder.facts_about("model")
    assert fact.values["class"].endswith("Net")
    assert fact.values["parameters"] == sum(parameter.numel() for parameter in model.parameters())
    assert fact.values["dtype"] == "torch.float32"
    assert fact.values["device"] == "cpu"
    assert fact.values["channels_last"] is False
    assert fact.location is not None
    assert fact.location[0] == __file__
    assert {mark.subject for mark in recorder.marks_of(wire.MODE)} == {fact.id}
    del optimizer


def test_layout_and_precision_of_the_weights_are_facts() -> None:
    with hooking.install_hooks("models", "evaluation") as recorder:
        model = Net().to(torch.bfloat16)
        model.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        optimizer = train_step(model)
        recorder.edge()
        second_model = nn.Linear(2, 2).train()
        second_optimizer = train_step(second_model)
        recorder.edge()
    first_fact, second_fact = recorder.facts_about("model")
    assert first_fact.values["channels_last"] is True
    assert first_fact.values["dtype"] == "torch.bfloat16"
    assert second_fact.values["channels_last"] is None
    del optimizer, second_optimizer


def test_a_model_that_was_met_before_it_is_compiled_is_told_to_be() -> None:
    with hooking.install_hooks("models", "evaluation") as recorder:
        model = Net().to("cpu")
        compiled_model = torch.compile(model, backend="eager")
        optimizer = train_step(model)
        recorder.edge()
    (fact,) = recorder.facts_about("model")
    assert fact.values["compiled"] is True
    del compiled_model, optimizer


def test_a_model_that_is_only_named_in_the_script_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with hooking.install_hooks("models", "evaluation") as recorder:
        model = Net()
        monkeypatch.setattr(sys.modules["__main__"], "the_model", model, raising=False)
        optimizer = train_step(model)
        recorder.edge()
    (fact,) = recorder.facts_about("model")
    assert fact.values["class"].endswith("Net")
    del optimizer


def test_a_model_that_is_met_at_its_first_evaluation_is_known_at_the_next_edge() -> None:
    with hooking.install_hooks("models", "evaluation") as recorder:
        model = Net()
        optimizer = train_step(model)
        for _ in range(12):
            recorder.edge()
        assert recorder.facts_about("model") == []
        model.eval()
        model.train()
        recorder.edge()
    assert [mark.value for mark in recorder.marks_of(wire.MODE)] == [0, 1]
    del optimizer


def test_a_model_that_nobody_names_is_written_down_as_unseen() -> None:
    with hooking.install_hooks("models", "evaluation") as recorder:
        optimizer = train_step(Net())
        for _ in range(10):
            recorder.edge()
    assert recorder.facts_about("model") == []
    assert [topic for topic, _ in recorder.unobserved] == ["model"]
    del optimizer


def test_two_models_of_two_optimizers_are_told_apart() -> None:
    with hooking.install_hooks("models", "evaluation") as recorder:
        generator, critic = nn.Linear(2, 2).train(), nn.Linear(2, 1).train()
        optimizers = train_step(generator), train_step(critic)
        recorder.edge()
        critic.eval()
    assert len(recorder.facts_about("model")) == 2
    subjects = [mark.subject for mark in recorder.marks_of(wire.MODE)]
    assert len(set(subjects)) == 2
    critics = next(fact for fact in recorder.facts_about("model") if fact.values["parameters"] == 3)
    assert (subjects[-1], recorder.marks[-1].value) == (critics.id, 0)
    del optimizers


def test_a_module_is_not_kept_alive() -> None:
    with hooking.install_hooks("models", "evaluation") as recorder:
        model = Net().train()
        optimizer = train_step(model)
        recorder.entities.clear()
        references = weakref.ref(model), weakref.ref(optimizer)
        del model, optimizer
        gc.collect()
        assert [reference() for reference in references] == [None, None]
        recorder.edge()
    assert recorder.facts_about("model") == []


def test_what_train_raises_is_raised_as_it_would_be() -> None:
    model = nn.Sequential(nn.Sequential(Broken()))
    plain = hooking.traceback_of(model.eval)
    with hooking.install_hooks("models", "evaluation"):
        observed = hooking.traceback_of(model.eval)
        wrong_mode = hooking.traceback_of(lambda: model.train("yes"))  # pyright: ignore[reportArgumentType]
        Net().eval()
    assert plain
    assert observed == plain
    assert "boolean" in wrong_mode[-1]


def test_train_is_the_same_to_whoever_looks_and_put_back() -> None:
    names = ("train", "eval", "to", "cuda")
    before = [vars(nn.Module)[name] for name in names]
    with hooking.install_hooks("models", "evaluation"):
        assert vars(nn.Module)["train"] is not before[0]
        assert inspect.signature(nn.Module.train) == inspect.signature(before[0])
        model = Net().eval()
        assert copy.deepcopy(model).training is False
        assert pickle.loads(pickle.dumps(model)).training is False  # noqa: S301 - our own
        scripted: list[object] = []
        hooking.warnings_of(lambda: scripted.append(torch.jit.script(nn.Linear(2, 2)).eval()))
        assert len(scripted) == 1
    assert [vars(nn.Module)[name] for name in names] == before


def test_the_modules_inside_cost_next_to_nothing() -> None:
    model = nn.Sequential(*(nn.Sequential(nn.Linear(1, 1), nn.ReLU()) for _ in range(200)))

    def is_cheap() -> bool:
        plain = min(_time_train(model) for _ in range(15))
        with hooking.install_hooks("models", "evaluation"):
            observed = min(_time_train(model) for _ in range(15))
        return observed < 1.5 * plain + 100_000  # 601 modules

    assert any(is_cheap() for _ in range(20)), "a machine that others use is tried again"


def _time_train(model: nn.Module) -> int:
    start = time.thread_time_ns()
    model.train()
    return time.thread_time_ns() - start


# ── Graphs that nobody uses ─────────────────────────────────────────────────────────────────────


def evaluate(
    mode: Callable[[], AbstractContextManager[object]] | None,
    *,
    n_passes: int = 1,
    steps: bool = False,
) -> list[hooking.Fact]:
    """Evaluate so often under a mode of autograd; give what is told of it."""
    with hooking.install_hooks("models", "evaluation") as recorder:
        model = Net()
        model.train()
        optimizer = train_step(model)
        recorder.edge()
        for _ in range(n_passes):
            model.eval()
            with contextlib.nullcontext() if mode is None else mode():
                model.head(torch.ones(2, 4)).relu().sum()
            if steps:
                stepping.note_step(0, 0, 1)
            model.train()
        del optimizer
    return recorder.facts_about("evaluation")


def test_graphs_that_are_made_while_a_model_evaluates_are_counted() -> None:
    (fact,) = evaluate(None)
    assert fact.values["passes"] == fact.values["graphed"] == 1
    assert fact.values["nodes"] >= 3
    assert fact.values["tensors"] == 6
    assert fact.location is not None
    assert fact.location[0] == __file__


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_autograd_none_is_made(mode: Callable[[], AbstractContextManager[object]]) -> None:
    (fact,) = evaluate(mode)
    assert (fact.values["passes"], fact.values["graphed"], fact.values["nodes"]) == (1, 0, 0)


def test_evaluations_are_told_of_more_and_more_seldom() -> None:
    assert [fact.values["passes"] for fact in evaluate(None, n_passes=9)] == [1, 2, 4, 8]


def test_what_trains_meanwhile_is_no_evaluation() -> None:
    try:
        assert evaluate(None, steps=True) == []
    finally:
        stepping.forget()


def test_a_torch_that_does_not_number_nodes_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless.payload.hooks.graphs.count_nodes", lambda: None)
    assert evaluate(None) == []


def test_an_evaluation_tells_of_environments_that_are_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", type(sys)("gymnasium"))
    (fact,) = evaluate(torch.no_grad)
    assert fact.values["environment"] == "gymnasium"


def test_a_model_within_its_loss_is_told_for_both() -> None:
    """As in sentence-transformers: the loss is trained, and what it holds is evaluated."""
    with hooking.install_hooks("models", "evaluation") as recorder:
        model = Net()
        loss = nn.ModuleDict({"model": model})
        loss.train()
        model.train()
        optimizer = train_step(loss)
        recorder.edge()
        for _ in range(2):
            model.eval()
            model.train()
        loss.eval()
        model.train()
    assert [mark.value for mark in recorder.marks_of(wire.MODE)][-6:] == [0, 1, 0, 1, 0, 1]
    (fact,) = recorder.facts_about("model")
    assert {mark.subject for mark in recorder.marks_of(wire.MODE)} == {fact.id}
    del optimizer
