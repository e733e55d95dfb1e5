"""Calls that are counted: backward passes of a step, emptied caches, gradients set to zero."""

from typing import Any

import torch
from torch import nn
from torch.utils import checkpoint

from gapless.payload import patching
from tests.payload import hooking


def told(recorder: hooking.Recorder) -> dict[str, Any]:
    return recorder.about("calls")[-1].values


def step(model: nn.Module, passes: int) -> None:
    for _ in range(passes):
        model(torch.ones(1, 2)).sum().backward()


def test_backward_passes_are_counted_between_ends_of_steps() -> None:
    model = nn.Linear(2, 2)
    with hooking.installed("counts") as recorder:
        step(model, 5)  # before the first end of a step: it is not known how many make one
        recorder.edge()
        assert (told(recorder)["steps"], told(recorder)["passes"]) == (0, 0)
        for _ in range(9):
            step(model, 3)
            recorder.edge()
    assert (told(recorder)["steps"], told(recorder)["passes"]) == (9, 27)


def test_they_are_told_at_the_first_edges_and_then_once_a_second() -> None:
    with hooking.installed("counts") as recorder:
        for at in range(100):
            recorder.edge(1 + at * 100_000_000)
    assert [fact.values["steps"] for fact in recorder.about("calls")] == [
        *(0, 1, 2, 9),
        *(19, 29, 39, 49, 59, 69, 79, 89, 99),
    ]


def test_backward_passes_of_the_first_steps_are_enough() -> None:
    model = nn.Linear(2, 2)
    with hooking.installed("counts") as recorder:
        (action,) = recorder.actions
        for at, number in enumerate((0, 250, 300)):
            action(number, 0, 1 + at)
            step(model, 2)
        torch.cuda.empty_cache()
        action(400, 0, 2_000_000_000)
        found = told(recorder)
        assert (found["steps"], found["passes"], found["empty_cache"]) == (250, 2, 1)
        action(3, 0, 4_000_000_000)  # another anchor
        step(model, 5)
        action(4, 0, 6_000_000_000)
    assert (told(recorder)["steps"], told(recorder)["passes"]) == (1, 5)


def test_calls_that_edits_are_about_are_counted() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    forward = torch.autograd.backward
    with hooking.installed("counts") as recorder:
        assert torch.autograd.backward is not forward
        torch.cuda.empty_cache()
        optimizer.zero_grad()
        optimizer.zero_grad(set_to_none=False)
        model.zero_grad(False)  # noqa: FBT003 - as some write it
        for way in (True, False):
            x = torch.ones(1, 2, requires_grad=True)
            checkpoint.checkpoint(model, x, use_reentrant=way).sum().backward()
        recorder.edge()
    assert torch.autograd.backward is forward
    found = told(recorder)
    assert {name: found[name] for name in ("empty_cache", "zero_grad_to_zero", "no_sync")} == {
        "empty_cache": 1,
        "zero_grad_to_zero": 2,
        "no_sync": 0,
    }
    assert found["checkpointing"] == 2


def test_an_anchor_that_changes_begins_a_new_count() -> None:
    model = nn.Linear(2, 2)
    with hooking.installed("counts") as recorder:
        (action,) = recorder.actions
        action(40, 0, 1)
        step(model, 4)
        action(2, 0, 2)
        step(model, 1)
        action(3, 0, 3)
    assert (told(recorder)["steps"], told(recorder)["passes"]) == (1, 1)


def test_two_hooks_may_look_at_one_function() -> None:
    seen: list[str] = []
    model = nn.Linear(2, 2)

    def note(_args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        seen.append("backward")

    with hooking.installed("counts") as recorder:
        make = hooking.hook("calls").around("another", note)
        patching.replace(torch.autograd, "backward", make)
        patching.replace(torch.autograd, "backward", make)  # found once more: no second time
        recorder.edge()
        step(model, 2)
        recorder.edge()
    assert seen == ["backward"] * 2
    assert told(recorder)["passes"] == 2


def test_errors_of_the_users_keep_their_traceback() -> None:
    model = nn.Linear(2, 2)

    def twice() -> None:
        loss = model(torch.ones(1, 2)).sum()
        loss.backward()
        loss.backward()

    def wrongly() -> None:
        model.zero_grad(unknown=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]

    plain = hooking.told(twice), hooking.told(wrongly)
    with hooking.installed("counts"):
        observed = hooking.told(twice), hooking.told(wrongly)
    assert all(plain)
    assert observed == plain


def test_what_is_compiled_counts_nothing_and_breaks_no_graph() -> None:
    model = nn.Linear(2, 2)

    def whole(x: torch.Tensor) -> torch.Tensor:
        model.zero_grad(set_to_none=False)
        return model(x) * 2

    with hooking.installed("counts") as recorder:
        found = torch.compile(whole, backend="eager", fullgraph=True)(torch.ones(1, 2))
        recorder.edge()
    assert found.shape == (1, 2)
    assert told(recorder)["zero_grad_to_zero"] == 0
