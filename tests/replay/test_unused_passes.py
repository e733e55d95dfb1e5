"""What is left of a step where forward passes that nothing uses are left out."""

import pytest

from gapless.model.change import Omit
from gapless.model.study import UNUSED
from tests.accounting.passes import Script, run_model, train
from tests.replay.windows import scene_of, step_lengths

LEFT_OUT = Omit((UNUSED,))
KERNEL = 50  # µs, the only one of a pass
HOST = 15  # µs, from the first operator of a pass to the end of its last


def script_of_steps(*, engine: str = "m", launches: bool = False, twice: bool = True) -> Script:
    script = Script(engine)
    for _ in range(5):
        if twice:
            run_model(script, launches=launches)
        train(script, run_model(script, launches=launches), launches=launches)
        script.end_step()
    return script


def test_on_the_cpu_the_step_is_shorter_by_the_pass() -> None:
    scene = scene_of(script_of_steps().drawing())
    before = step_lengths(scene)
    assert step_lengths(scene, LEFT_OUT) == [length - HOST for length in before]


def test_where_the_device_has_more_to_do_what_it_is_not_given_counts() -> None:
    scene = scene_of(script_of_steps(engine="e", launches=True).drawing())
    before = step_lengths(scene)
    assert step_lengths(scene, LEFT_OUT) == [length - KERNEL for length in before]


@pytest.mark.parametrize("engine", ["m", "e"])
def test_passes_that_are_used_stay(engine: str) -> None:
    scene = scene_of(script_of_steps(engine=engine, twice=False).drawing())
    assert step_lengths(scene, LEFT_OUT) == step_lengths(scene)
