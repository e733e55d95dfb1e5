"""Calls that are counted: backward passes of a step, emptied caches, gradients set to zero."""

from typing import Any

import torch
from torch import nn
from torch.utils import checkpoint

from gapless.payload import patching
from tests.payload import hooking


def last_counts(recorder: hooking.Recorder) -> dict[str, Any]:
    return recorder.facts_about("calls")[-1].values


def run_passes(model: nn.Module, n_passes: int) -> None:
    for _ in range(n_passes):
        model(torch.ones(1, 2)).sum().backward()


def test_backward_passes_are_counted_between_ends_of_steps() -> None:
    model = nn.Linear(2, 2)
    with hooking.install_hooks("counts") as recorder:
        run_passes(model, 5)  # before the first end of a step: it is not known how many make one
        recorder.edge()
        assert (last_counts(recorder)["steps"], last_counts(recorder)["passes"]) == (0, 0)
        for _ in range(9):
            run_passes(model, 3)
            recorder.edge()
    assert (last_counts(recorder)["steps"], last_counts(recorder)["passes"]) == (9, 27)


def test_they_are_told_at_the_first_edges_and_then_once_a_second() -> None:
    with hooking.install_hooks("counts") as recorder:
        for index in range(100):
            recorder.edge(1 + index * 100_000_000)
    assert [fact.values["steps"] for fact in recorder.facts_about("calls")] == [
        *(0, 1, 2, 9),
        *(19, 29, 39, 49, 59, 69, 79, 89, 99),
    ]


def test_backward_passes_of_the_first_steps_are_enough() -> None:
    model = nn.Linear(2, 2)
    with hooking.install_hooks("counts") as recorder:
        (action,) = recorder.actions
        for index, number in enumerate((0, 250, 300)):
            action(number, 0, 1 + index)
            run_passes(model, 2)
        torch.cuda.empty_cache()
        action(400, 0, 2_000_000_000)
        counts = last_counts(recorder)
        assert (counts["steps"], counts["passes"], counts["empty_cache"]) == (250, 2, 1)
        action(3, 0, 4_000_000_000)  # another anchor
        run_passes(model, 5)
        action(4, 0, 6_000_000_000)
    assert (last_counts(recorder)["steps"], last_counts(recorder)["passes"]) == (1, 5)


def test_calls_that_edits_are_about_are_counted() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    forward = torch.autograd.backward
    with hooking.install_hooks("counts") as recorder:
        assert torch.autograd.backward is not forward
        torch.cuda.empty_cache()
        optimizer.zero_grad()
        optimizer.zero_grad(set_to_none=False)
        model.zero_grad(False)  # noqa: FBT003 - as some write it
        for is_reentrant in (True, False):
            x = torch.ones(1, 2, requires_grad=True)
            checkpoint.checkpoint(model, x, use_reentrant=is_reentrant).sum().backward()
        recorder.edge()
    assert torch.autograd.backward is forward
    counts = last_counts(recorder)
    assert {name: counts[name] for name in ("empty_cache", "zero_grad_to_zero", "no_sync")} == {
        "empty_cache": 1,
        "zero_grad_to_zero": 2,
        "no_sync": 0,
    }
    assert counts["checkpointing"] == 2


def test_an_anchor_that_changes_begins_a_new_count() -> None:
    model = nn.Linear(2, 2)
    with hooking.install_hooks("counts") as recorder:
        (action,) = recorder.actions
        action(40, 0, 1)
        run_passes(model, 4)
        action(2, 0, 2)
        run_passes(model, 1)
        action(3, 0, 3)
    assert (last_counts(recorder)["steps"], last_counts(recorder)["passes"]) == (1, 1)


def test_two_hooks_may_look_at_one_function() -> None:
    notes: list[str] = []
    model = nn.Linear(2, 2)

    def note(_args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        notes.append("backward")

    with hooking.install_hooks("counts") as recorder:
        make = hooking.hook_module("calls").around("another", note)
        patching.replace(torch.autograd, "backward", make)
        patching.replace(torch.autograd, "backward", make)  # found once more: no second time
        recorder.edge()
        run_passes(model, 2)
        recorder.edge()
    assert notes == ["backward"] * 2
    assert last_counts(recorder)["passes"] == 2


def test_errors_of_the_users_keep_their_traceback() -> None:
    model = nn.Linear(2, 2)

    def backward_twice() -> None:
        loss = model(torch.ones(1, 2)).sum()
        loss.backward()
        loss.backward()

    def zero_wrongly() -> None:
        model.zero_grad(unknown=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]

    plain = hooking.traceback_of(backward_twice), hooking.traceback_of(zero_wrongly)
    with hooking.install_hooks("counts"):
        observed = hooking.traceback_of(backward_twice), hooking.traceback_of(zero_wrongly)
    assert all(plain)
    assert observed == plain


def test_what_is_compiled_counts_nothing_and_breaks_no_graph() -> None:
    model = nn.Linear(2, 2)

    def model_step(x: torch.Tensor) -> torch.Tensor:
        model.zero_grad(set_to_none=False)
        return model(x) * 2

    with hooking.install_hooks("counts") as recorder:
        output = torch.compile(model_step, backend="eager", fullgraph=True)(torch.ones(1, 2))
        recorder.edge()
    assert output.shape == (1, 2)
    assert last_counts(recorder)["zero_grad_to_zero"] == 0
