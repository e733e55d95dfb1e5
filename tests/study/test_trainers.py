"""Packages that run the loop of a training, of which the user's script only calls one function."""

import pytest

from gapless.model.recording import StackCount
from gapless.recorded.training.trainers import trainer_lines
from tests.study.recording import Log

Frame = tuple[str, int, str]
SITE = "/opt/venv/lib/python3.12/site-packages"
STEP: Frame = (f"{SITE}/torch/optim/adam.py", 200, "Adam.step")
BACKWARD: Frame = (f"{SITE}/torch/_tensor.py", 500, "Tensor.backward")
HYDRA: Frame = (f"{SITE}/hydra/main.py", 90, "decorated_main")


def _script(line: int, function: str = "<module>") -> Frame:
    return "/opt/train.py", line, function


def _trainer(line: int) -> Frame:
    return f"{SITE}/diffusion/trainer.py", line, "Trainer.train"


def _stack(ran_ns: int, *frames: Frame) -> StackCount:
    """Return a stack of the training thread, from its outermost frame on."""
    return StackCount("training", frames[::-1], 1, ran_ns=ran_ns)


@pytest.mark.parametrize(
    ("stacks", "shares"),
    [
        pytest.param(
            [
                _stack(60, _script(30), _trainer(11), BACKWARD),
                _stack(40, _script(30), _trainer(12), STEP),
            ],
            {11: 0.6, 12: 0.4},
            id="a trainer",
        ),
        pytest.param(
            [_stack(50, _trainer(11), STEP), _stack(50, _trainer(12))],
            {11: 0.5, 12: 0.5},
            id="a package that runs as a module",
        ),
        pytest.param(
            [_stack(95, _script(30), HYDRA, _script(9, "main"), _trainer(11), STEP)],
            {11: 1.0},
            id="a trainer below a package that calls main",
        ),
        pytest.param(
            [_stack(50, _script(30), HYDRA, _script(line, "main"), STEP) for line in (7, 8)],
            {},
            id="a package that calls main, with a loop in it",
        ),
        pytest.param(
            [
                _stack(60, _script(30), _trainer(11), _script(5, "loss")),
                _stack(40, _script(30), _trainer(12), STEP),
            ],
            {},
            id="a trainer that calls the user's code back",
        ),
        pytest.param(
            [_stack(80, _script(30), _trainer(11), STEP), _stack(20, _script(31))],
            {},
            id="the user's own code takes a part",
        ),
        pytest.param([_stack(9, _script(30), BACKWARD)], {}, id="torch alone"),
        pytest.param([_stack(0, _script(30), _trainer(11))], {}, id="no time was measured"),
        pytest.param([], {}, id="no stacks"),
    ],
)
def test_lines_of_the_package_tell_where_one_call_of_it_stood(
    stacks: list[StackCount], shares: dict[int, float]
) -> None:
    log = Log()
    log.stacks += stacks
    lines = trainer_lines([log.to_process()])
    assert {line.line: line.share for line in lines} == shares
    assert {line.file for line in lines} <= {_trainer(0)[0]}
