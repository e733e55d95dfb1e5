"""Packages that run the loop of a training, of which the user's script only calls one function."""

import pytest

from gapless.model.recording import StackCount
from gapless.recorded.training.lines import hot_lines
from gapless.recorded.training.processes import trainings
from gapless.recorded.training.trainers import find_trainer
from tests.study.recording import Log, recording

Frame = tuple[str, int, str]
SITE = "/opt/venv/lib/python3.12/site-packages"
SCRIPT: Frame = ("/opt/train.py", 30, "<module>")
ENTRY: Frame = (f"{SITE}/diffusion/trainer.py", 10, "Trainer.train")
STEP: Frame = (f"{SITE}/torch/optim/adam.py", 200, "Adam.step")
BACKWARD: Frame = (f"{SITE}/torch/_tensor.py", 500, "Tensor.backward")


def _entry_at(line: int) -> Frame:
    return ENTRY[0], line, ENTRY[2]


def _stack(ran_ns: int, *frames: Frame) -> StackCount:
    """Return a stack of the training thread, the outermost frame first."""
    return StackCount("training", frames[::-1], 1, ran_ns=ran_ns)


def test_lines_of_the_package_stand_for_the_call_of_its_trainer() -> None:
    log = Log()
    log.stacks += [
        _stack(60, SCRIPT, _entry_at(11), BACKWARD),
        _stack(40, SCRIPT, _entry_at(12), STEP),
    ]
    assert [line.line for line in hot_lines([log.to_process()])] == [30]
    (training,) = trainings(recording(log))
    assert [(line.file, line.line, line.share) for line in hot_lines([training.process])] == [
        ("diffusion/trainer.py", 11, 0.6),
        ("diffusion/trainer.py", 12, 0.4),
    ]


@pytest.mark.parametrize(
    ("stacks", "package"),
    [
        pytest.param(
            [_stack(50, SCRIPT, ENTRY, BACKWARD), _stack(50, SCRIPT, ENTRY)],
            "diffusion",
            id="a package's trainer",
        ),
        pytest.param(
            [_stack(50, ENTRY, STEP), _stack(50, ENTRY)],
            "diffusion",
            id="a package that runs as a module",
        ),
        pytest.param(
            [_stack(95, SCRIPT, ENTRY), _stack(5, ("/opt/train.py", 31, "<module>"), BACKWARD)],
            None,
            id="a package computes most, the user's loop makes the steps",
        ),
        pytest.param(
            [_stack(80, SCRIPT, ENTRY, BACKWARD), _stack(20, SCRIPT)],
            None,
            id="the user's own code takes a part",
        ),
        pytest.param(
            [_stack(9, SCRIPT, (f"{SITE}/transformers/trainer.py", 7, "Trainer.train"), STEP)],
            None,
            id="a framework with words of its own",
        ),
        pytest.param([_stack(9, SCRIPT, BACKWARD)], None, id="torch alone"),
        pytest.param([_stack(9, SCRIPT, ENTRY)], None, id="nothing makes steps"),
        pytest.param([], None, id="no stacks"),
    ],
)
def test_a_trainer_is_what_nearly_all_time_and_all_steps_go_through(
    stacks: list[StackCount], package: str | None
) -> None:
    assert find_trainer(stacks) == package
