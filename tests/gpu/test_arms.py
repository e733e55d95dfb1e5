"""Arms of a trial on a GPU: losses without a wait, the end of pinning workers, nothing left."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gapless import wire
from gapless.model.recording import Process
from gapless.verify.arms.arm import ArmPlan, make_runner, run
from gapless.verify.specs import OUT_OF_MEMORY, ArmSpec

pytestmark = pytest.mark.gpu
FIT = Path(__file__).parent / "arms_fit.py"
STOP = 150


def arm_plan(folder: Path, gibibytes: str = "0") -> ArmPlan:
    return ArmPlan((sys.executable, str(FIT), gibibytes), folder, deadline_s=240)


def other_gpu_processes() -> str:
    """Return the processes that the driver knows of on the tests' GPU, but this one."""
    gpu = f"--id=GPU-{torch.cuda.get_device_properties(0).uuid}"
    command = ["nvidia-smi", gpu, "--query-compute-apps=pid", "--format=csv,noheader"]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return "".join(line for line in listing.splitlines() if line.strip() != str(os.getpid()))


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory) -> list[Process]:
    processes: list[Process] = []
    for number in range(2):
        folder = tmp_path_factory.mktemp("arms")
        arm, recording = run(arm_plan(folder), ArmSpec("A", number, (), STOP, 120.0))
        assert arm.folder is not None
        assert (arm.failed, arm.code) == (None, 0)
        assert (Path(arm.folder) / "output.txt").read_text() == "begun\n", "nothing ran behind it"
        assert recording is not None
        processes += [process for process in recording.processes if process.role == "training"]
    return processes


def test_an_arm_leaves_at_its_step_with_its_losses(arms: list[Process]) -> None:
    for process in arms:
        assert (process.end_kind, process.trial is None) == ("trial", False)
        assert process.trial is not None
        assert (process.trial.stopped, process.trial.scaled) == (STOP, True)
        assert STOP <= len(process.trial.losses) < STOP + 5  # the scaler leaves out its first steps
        assert [
            item for item in process.unobserved if item.what in {"losses", "samples", "trial"}
        ] == []
    assert other_gpu_processes() == ""


def test_equal_seeds_draw_alike_on_the_gpu(arms: list[Process]) -> None:
    first_trial, second_trial = (arm.trial for arm in arms)
    assert first_trial is not None
    assert second_trial is not None
    assert first_trial.losses[:20] == second_trial.losses[:20], (
        "weights, dropout and order are the same"
    )
    assert len(set(first_trial.losses)) > STOP // 2
    assert first_trial.indices == second_trial.indices


def test_the_end_of_workers_that_pin_is_measured(arms: list[Process]) -> None:
    for process in arms:
        is_close = process.marks.kind == wire.CLOSE
        last_step = process.marks.end[process.marks.kind == wire.STEP].max()
        assert (process.marks.start[is_close] > last_step).tolist() == [True]
        lengths_ns = process.marks.end[is_close] - process.marks.start[is_close]
        print(f"the workers' end took {lengths_ns[0] / 1e6:.1f} ms")


def test_more_memory_than_there_is_does_not_fit(tmp_path: Path) -> None:
    arm, _ = run(arm_plan(tmp_path, "4000"), ArmSpec("B", 0, (), STOP, 60.0))
    assert arm.failed == OUT_OF_MEMORY
    assert other_gpu_processes() == ""


def test_an_arm_with_a_window_knows_the_device(tmp_path: Path) -> None:
    arm_run = make_runner(arm_plan(tmp_path))(ArmSpec("B", 0, (), STOP, 60.0, takes_window=True))
    assert arm_run.failure is None
    assert arm_run.account is not None
    assert other_gpu_processes() == ""
