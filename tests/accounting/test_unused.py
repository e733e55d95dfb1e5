"""Passes that nothing uses: drawn, so that each reason to be silent is met alone."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from gapless.accounting.host.unused_forwards import find_unused_passes
from tests.accounting.drawing import US
from tests.accounting.passes import HIDDEN, Script, X, call_plain, run_model, train

STEPS = 3
Step = Callable[[Script], object]


def do_nothing(_: Script) -> None:
    """Do nothing."""


def draw_script(
    first_pass: Step = run_model,
    between: Step = do_nothing,
    behind: Step = do_nothing,
    after: Step = do_nothing,
    *,
    steps: int = STEPS,
) -> Script:
    """Draw steps: a first pass, the one that is trained, the loss, what follows it."""
    script = Script()
    for _ in range(steps):
        first_pass(script)
        between(script)
        pass_nodes = run_model(script)
        behind(script)
        train(script, pass_nodes)
        after(script)
        script.end_step()
    return script


def count_unused(script: Script, *, alone: bool = False) -> int:
    return len(find_unused_passes(script.threads(), alone=alone))


def argmax(script: Script) -> None:
    call_plain(script, "aten::argmax", HIDDEN)


def run_argmax_twice(script: Script) -> None:
    argmax(script)
    argmax(script)


def detach(script: Script) -> None:
    call_plain(script, "aten::detach", HIDDEN)


def test_a_pass_is_found_that_no_backward_pass_and_no_operator_uses() -> None:
    script = draw_script()
    unused_passes = find_unused_passes(script.threads())
    period = script.bounds[1]
    assert unused_passes.start.tolist() == [0, period, 2 * period]
    assert (unused_passes.end - unused_passes.start).tolist() == [15 * US] * STEPS
    assert (unused_passes.twin_start - unused_passes.start).tolist() == [20 * US] * STEPS


def test_it_may_come_behind_the_one_that_is_used() -> None:
    def run_again(script: Script) -> None:
        run_model(script)

    assert count_unused(draw_script(do_nothing, behind=run_again)) == STEPS
    n_last = 1  # of the capture: what its last operator made no number tells
    assert count_unused(draw_script(do_nothing, after=run_again)) == STEPS - n_last


@pytest.mark.parametrize(
    "make_script",
    [
        pytest.param(lambda: draw_script(do_nothing), id="there is no other pass"),
        pytest.param(lambda: draw_script(between=argmax), id="its result is looked at"),
        pytest.param(
            lambda: draw_script(behind=detach), id="one of both results is taken for a loss"
        ),
        pytest.param(lambda: draw_script(after=run_argmax_twice), id="both results are measured"),
        pytest.param(
            lambda: draw_script(
                do_nothing, after=lambda script: (run_model(script), argmax(script))
            ),
            id="it is measured with what was learnt",
        ),
        pytest.param(
            lambda: draw_script(lambda script: run_model(script, wide=17)),
            id="it is of another make",
        ),
        pytest.param(
            lambda: draw_script(
                between=lambda script: script.call("aten::linear", HIDDEN, (1, 16))
            ),
            id="another network is shown what it gives",
        ),
        pytest.param(
            lambda: draw_script(behind=lambda script: call_plain(script, "CompiledFunction", X)),
            id="compiled code may take anything",
        ),
        pytest.param(lambda: draw_script(steps=1), id="a step behind the last may use it"),
    ],
)
def test_nothing_is_said_where(make_script: Callable[[], Script]) -> None:
    assert count_unused(make_script()) == 0


def test_what_is_measured_once_all_losses_are_known_is_the_result_that_is_trained() -> None:
    assert count_unused(draw_script(after=argmax)) == STEPS


def test_a_single_step_tells_where_it_is() -> None:
    assert count_unused(draw_script(steps=1), alone=True) == 1


def test_a_graph_that_a_later_step_runs_back_through_is_used() -> None:
    script = Script()
    previous_nodes: list[list[int]] = []
    for _ in range(STEPS):
        for nodes in previous_nodes:
            script.run_backward(nodes, HIDDEN)
        previous_nodes = run_model(script)
        train(script, run_model(script))
        script.end_step()
    assert count_unused(script) == 0


def test_what_is_done_in_one_step_of_many_is_no_part_of_a_step() -> None:
    script = Script()
    for number in range(5):
        if number == 1:
            run_model(script)
        train(script, run_model(script))
        script.end_step()
    assert count_unused(script) == 0


def test_casts_that_the_next_pass_finds_made_are_used_and_the_first_is_not() -> None:
    """Autocast keeps the weights that the first pass casts."""
    script = Script()
    name = "autograd::engine::evaluate_function: ToCopyBackward0"
    for _ in range(STEPS):
        script.call("aten::linear", X, (16, 4), (16,), nodes=3)
        cast = script.next_node - 3
        script.call("aten::relu", HIDDEN)
        train(script, run_model(script))
        script.run_backward([cast], (16, 4))
        script.frames[-2] = replace(script.frames[-2], name=name)
        script.end_step()
    assert count_unused(script) == STEPS


@pytest.mark.parametrize(
    ("module_name", "n_unused"), [("nn.Module: Net_0", STEPS), ("nn.Module: Net_1", 0)]
)
def test_stacks_tell_one_network_from_another_of_the_same_make(
    module_name: str, n_unused: int
) -> None:
    script = Script()
    for _ in range(STEPS):
        for name in (module_name, "nn.Module: Net_0"):
            start, pass_nodes = script.now_ns, run_model(script)
            script.wrap_since(start, name)
        train(script, pass_nodes)
        script.end_step()
    assert count_unused(script) == n_unused


def test_numbers_without_sizes_tell_nothing() -> None:
    script = draw_script()
    script.frames = [replace(frame, shape=None) for frame in script.frames]
    assert count_unused(script) == 0
