"""What is left of a step where forward passes that nothing uses are left out."""

import pytest

from gapless.model.change import Omit
from gapless.model.study import UNUSED
from tests.accounting.passes import Script, model, train
from tests.replay.windows import lengths, scene_of

LEFT_OUT = Omit((UNUSED,))
KERNEL = 50  # µs, the only one of a pass
HOST = 15  # µs, from the first operator of a pass to the end of its last


def steps(*, engine: str = "m", launches: bool = False, twice: bool = True) -> Script:
    script = Script(engine)
    for _ in range(5):
        if twice:
            model(script, launches=launches)
        train(script, model(script, launches=launches), launches=launches)
        script.step()
    return script


def test_on_the_cpu_the_step_is_shorter_by_the_pass() -> None:
    one = scene_of(steps().drawing())
    before = lengths(one)
    assert lengths(one, LEFT_OUT) == [length - HOST for length in before]


def test_where_the_device_has_more_to_do_what_it_is_not_given_counts() -> None:
    one = scene_of(steps(engine="e", launches=True).drawing())
    before = lengths(one)
    assert lengths(one, LEFT_OUT) == [length - KERNEL for length in before]


@pytest.mark.parametrize("engine", ["m", "e"])
def test_passes_that_are_used_stay(engine: str) -> None:
    one = scene_of(steps(engine=engine, twice=False).drawing())
    assert lengths(one, LEFT_OUT) == lengths(one)
