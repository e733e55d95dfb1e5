"""Arms of a trial on a GPU: losses without a wait, the end of pinning workers, nothing left."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gapless import wire
from gapless.model.recording import Process
from gapless.verify.arm import ArmPlan, run, runner
from gapless.verify.wanted import OUT_OF_MEMORY, Order

pytestmark = pytest.mark.gpu
FIT = Path(__file__).parent / "arms_fit.py"
STOP = 150


def plan(folder: Path, gibibytes: str = "0") -> ArmPlan:
    return ArmPlan((sys.executable, str(FIT), gibibytes), folder, deadline_s=240)


def on_the_gpu() -> str:
    """Give the processes that the driver knows of, but this one."""
    command = ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return "".join(line for line in found.splitlines() if line.strip() != str(os.getpid()))


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory) -> list[Process]:
    found: list[Process] = []
    for number in range(2):
        folder = tmp_path_factory.mktemp("arms")
        arm, recording = run(plan(folder), Order("A", number, (), STOP, 120.0))
        assert arm.folder is not None
        assert (arm.failed, arm.code) == (None, 0)
        assert (Path(arm.folder) / "output.txt").read_text() == "begun\n", "nothing ran behind it"
        assert recording is not None
        found += [one for one in recording.processes if one.role == "training"]
    return found


def test_an_arm_leaves_at_its_step_with_its_losses(arms: list[Process]) -> None:
    for one in arms:
        assert (one.how, one.trial is None) == ("trial", False)
        assert one.trial is not None
        assert (one.trial.stopped, one.trial.scaled) == (STOP, True)
        assert STOP <= len(one.trial.losses) < STOP + 5  # the scaler leaves out its first steps
        assert [each for each in one.unseen if each.what in {"losses", "samples", "trial"}] == []
    assert on_the_gpu() == ""


def test_equal_seeds_draw_alike_on_the_gpu(arms: list[Process]) -> None:
    one, other = (arm.trial for arm in arms)
    assert one is not None
    assert other is not None
    assert one.losses[:20] == other.losses[:20], "weights, dropout and order are the same"
    assert len(set(one.losses)) > STOP // 2
    assert one.indices == other.indices


def test_the_end_of_workers_that_pin_is_measured(arms: list[Process]) -> None:
    for one in arms:
        closed = one.marks.kind == wire.CLOSE
        last = one.marks.end[one.marks.kind == wire.STEP].max()
        assert (one.marks.start[closed] > last).tolist() == [True]
        took = one.marks.end[closed] - one.marks.start[closed]
        print(f"the workers' end took {took[0] / 1e6:.1f} ms")


def test_more_memory_than_there_is_does_not_fit(tmp_path: Path) -> None:
    arm, _ = run(plan(tmp_path, "4000"), Order("B", 0, (), STOP, 60.0))
    assert arm.failed == OUT_OF_MEMORY
    assert on_the_gpu() == ""


def test_an_arm_with_a_window_knows_the_device(tmp_path: Path) -> None:
    ran = runner(plan(tmp_path))(Order("B", 0, (), STOP, 60.0, window=True))
    assert ran.failed is None
    assert ran.account is not None
    assert on_the_gpu() == ""
