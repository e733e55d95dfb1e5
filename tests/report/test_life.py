"""A command in a few words: the program and its script by name, the rest as it was given."""

import pytest
from msgspec.structs import replace

from gapless.report.sections.run_status import life_line
from gapless.study import Options, study_recording
from tests.study.recording import Log, recording

PYTHON = "/opt/conda/envs/training/bin/python3"
SCRIPT = "/srv/projects/detection/of/things/train.py"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("python", "train.py"), "python train.py"),
        ((PYTHON, SCRIPT, "--epochs", "90"), "python3 train.py --epochs 90"),
        (
            (PYTHON, SCRIPT, "--data", "sets/of/pictures/imagenet/train"),
            "python3 train.py --data sets/of/pictures/imagenet/train",
        ),
        ((PYTHON, "-m", "x.train", "--out", "/runs/1" * 9), "python3 -m x.train --out /runs/1"),
    ],
)
def test_a_command_is_told_by_the_names_of_program_and_script(
    command: tuple[str, ...], expected: str
) -> None:
    log = Log(end=1000)
    log.add_steps(100, 200, 300)
    recorded = study_recording(recording(log), Options()).recorded
    assert recorded is not None
    life = replace(recorded.life, command=command)
    line = life_line(replace(recorded, life=life)).partition(" · ")[0]
    assert line.startswith(expected)
    assert len(line) <= 60
    assert line == expected or line.endswith("…")
