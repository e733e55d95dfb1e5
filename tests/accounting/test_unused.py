"""Passes that nothing uses: drawn, so that each reason to be silent is met alone."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from gapless.accounting.unused import unused
from tests.accounting.drawing import US
from tests.accounting.passes import HIDDEN, Script, X, model, plain, train

STEPS = 3
Step = Callable[[Script], object]


def nothing(_: Script) -> None:
    """Do nothing."""


def drawn(
    first: Step = model,
    between: Step = nothing,
    behind: Step = nothing,
    after: Step = nothing,
    *,
    steps: int = STEPS,
) -> Script:
    """Draw steps: a first pass, the one that is trained, the loss, what follows it."""
    script = Script()
    for _ in range(steps):
        first(script)
        between(script)
        passed = model(script)
        behind(script)
        train(script, passed)
        after(script)
        script.step()
    return script


def count(script: Script, *, alone: bool = False) -> int:
    return len(unused(script.threads(), alone=alone))


def argmax(script: Script) -> None:
    plain(script, "aten::argmax", HIDDEN)


def twice(script: Script) -> None:
    argmax(script)
    argmax(script)


def detach(script: Script) -> None:
    plain(script, "aten::detach", HIDDEN)


def test_a_pass_is_found_that_no_backward_pass_and_no_operator_uses() -> None:
    script = drawn()
    found = unused(script.threads())
    period = script.bounds[1]
    assert found.start.tolist() == [0, period, 2 * period]
    assert (found.end - found.start).tolist() == [15 * US] * STEPS
    assert (found.twin_start - found.start).tolist() == [20 * US] * STEPS


def test_it_may_come_behind_the_one_that_is_used() -> None:
    def also(script: Script) -> None:
        model(script)

    assert count(drawn(nothing, behind=also)) == STEPS
    last = 1  # of the capture: what its last operator made no number tells
    assert count(drawn(nothing, after=also)) == STEPS - last


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(lambda: drawn(nothing), id="there is no other pass"),
        pytest.param(lambda: drawn(between=argmax), id="its result is looked at"),
        pytest.param(lambda: drawn(behind=detach), id="one of both results is taken for a loss"),
        pytest.param(lambda: drawn(after=twice), id="both results are measured"),
        pytest.param(
            lambda: drawn(nothing, after=lambda script: (model(script), argmax(script))),
            id="it is measured with what was learnt",
        ),
        pytest.param(
            lambda: drawn(lambda script: model(script, wide=17)), id="it is of another make"
        ),
        pytest.param(
            lambda: drawn(between=lambda script: script.call("aten::linear", HIDDEN, (1, 16))),
            id="another network is shown what it gives",
        ),
        pytest.param(
            lambda: drawn(behind=lambda script: plain(script, "CompiledFunction", X)),
            id="compiled code may take anything",
        ),
        pytest.param(lambda: drawn(steps=1), id="a step behind the last may use it"),
    ],
)
def test_nothing_is_said_where(made: Callable[[], Script]) -> None:
    assert count(made()) == 0


def test_what_is_measured_once_all_losses_are_known_is_the_result_that_is_trained() -> None:
    assert count(drawn(after=argmax)) == STEPS


def test_a_single_step_tells_where_it_is() -> None:
    assert count(drawn(steps=1), alone=True) == 1


def test_a_graph_that_a_later_step_runs_back_through_is_used() -> None:
    script = Script()
    before: list[list[int]] = []
    for _ in range(STEPS):
        for made in before:
            script.back(made, HIDDEN)
        before = model(script)
        train(script, model(script))
        script.step()
    assert count(script) == 0


def test_what_is_done_in_one_step_of_many_is_no_part_of_a_step() -> None:
    script = Script()
    for number in range(5):
        if number == 1:
            model(script)
        train(script, model(script))
        script.step()
    assert count(script) == 0


def test_casts_that_the_next_pass_finds_made_are_used_and_the_first_is_not() -> None:
    """Autocast keeps the weights that the first pass casts."""
    script = Script()
    name = "autograd::engine::evaluate_function: ToCopyBackward0"
    for _ in range(STEPS):
        script.call("aten::linear", X, (16, 4), (16,), nodes=3)
        cast = script.number - 3
        script.call("aten::relu", HIDDEN)
        train(script, model(script))
        script.back([cast], (16, 4))
        script.frames[-2] = replace(script.frames[-2], name=name)
        script.step()
    assert count(script) == STEPS


@pytest.mark.parametrize(("other", "found"), [("nn.Module: Net_0", STEPS), ("nn.Module: Net_1", 0)])
def test_stacks_tell_one_network_from_another_of_the_same_make(other: str, found: int) -> None:
    script = Script()
    for _ in range(STEPS):
        for name in (other, "nn.Module: Net_0"):
            start, passed = script.at, model(script)
            script.within(start, name)
        train(script, passed)
        script.step()
    assert count(script) == found


def test_numbers_without_sizes_tell_nothing() -> None:
    script = drawn()
    script.frames = [replace(frame, shape=None) for frame in script.frames]
    assert count(script) == 0
