"""One arm of a trial, from its start to its values; files out of the page cache."""

import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from msgspec.structs import replace

from gapless.cli import main
from gapless.launch.trial import sandbox
from gapless.model.edit import SetArgument, SetEnv
from gapless.model.recording import Recording
from gapless.verify.arms import page_cache
from gapless.verify.arms.arm import NO_STEPS, ArmPlan, make_runner, run
from gapless.verify.specs import OUT_OF_MEMORY, ArmSpec

EDITS = (SetArgument("torch.utils.data.DataLoader", "num_workers", 1), SetEnv("MADE", "1"))
UNEDITED = ArmSpec("A", 3, (), stop_step=12, seconds=60.0)
TRAINING = """
import os, torch
from torch.utils.data import DataLoader
print("made", os.environ.get("MADE"))
open("written", "w").close()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for epoch in range(100):
    for batch in DataLoader(torch.randn(64, 4).split(1)):
        model(batch).sum().backward()
        optimizer.step()
"""


@pytest.fixture(autouse=True)
def _change_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """Let what the trainings write lie in a folder of the test's."""
    monkeypatch.chdir(tmp_path)


def make_plan(folder: Path, code: str, **changes: float) -> ArmPlan:
    base = ArmPlan((sys.executable, "-c", code), folder / "arms", close=False)
    return replace(base, **changes)


@pytest.mark.parametrize(
    ("code", "failure"),
    [
        ("raise SystemExit('torch.OutOfMemoryError: CUDA out of memory. Tried …')", OUT_OF_MEMORY),
        ("raise MemoryError", OUT_OF_MEMORY),
        ("print('one'); raise ValueError('no such file')", "ValueError: no such file"),
        ("import os; os._exit(4)", "it ended with exit code 4"),
        ("raise RuntimeError('a device failed\\nTry again')", "RuntimeError: a device failed"),
        (
            "raise SystemExit('[rank0]: OSError: lost\\n[rank0]: Try again')",
            "[rank0]: OSError: lost",
        ),
        ("import os; os.kill(os.getpid(), 15)", "ended by signal 15"),
        ("pass", NO_STEPS),
    ],
)
def test_an_arm_that_does_not_count_says_why(tmp_path: Path, code: str, failure: str) -> None:
    arm, recording = run(make_plan(tmp_path, code), UNEDITED)
    assert arm.failed == failure
    assert (arm.side, arm.order, arm.steps, arm.step_ns) == ("A", 3, 0, None)
    assert recording is not None
    assert recording.manifest.exit_code == arm.code


def test_an_arm_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    slow_plan = make_plan(tmp_path, "import time; time.sleep(1000)", deadline_s=0.4)
    assert run(slow_plan, UNEDITED)[0].failed == "it was not done after 0 s"


def test_an_arm_with_edits_gives_its_recording_and_writes_into_its_own_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_folder = tmp_path / "here"
    work_folder.mkdir()
    monkeypatch.chdir(work_folder)
    private_folder = work_folder if sandbox.explain_unavailable(work_folder) is None else None
    edited_spec = replace(UNEDITED, side="B", edits=EDITS)
    arm, recording = run(
        replace(make_plan(tmp_path, TRAINING), private_folder=private_folder), edited_spec
    )
    assert (work_folder / "written").exists() is (private_folder is None)
    assert (arm.failed, arm.code) == (None, 0)
    assert arm.foreign is not None
    assert 0 <= arm.foreign <= 1
    assert arm.folder is not None
    assert (Path(arm.folder) / "output.txt").read_text() == "made 1\n"
    assert recording is not None
    (training,) = [process for process in recording.processes if process.role == "training"]
    assert training.trial is not None
    assert (training.trial.stopped, len(training.trial.losses)) == (12, 12)
    (edit,) = [fact for fact in training.facts if fact.noun == "edit"]
    assert (edit.values["old"], edit.values["new"]) == (0, 1)


@pytest.mark.slow
def test_the_arm_with_a_window_has_an_account(tmp_path: Path) -> None:
    arm_run = make_runner(make_plan(tmp_path, TRAINING))(replace(UNEDITED, takes_window=True))
    assert arm_run.failure is None
    assert arm_run.account is not None
    assert arm_run.recording is not None
    (window,) = [window for process in arm_run.recording.processes for window in process.windows]
    assert window.path is not None
    assert window.first_step > UNEDITED.stop_step, "after the steps that are measured"


@pytest.mark.slow
def test_an_edit_that_cannot_be_laid_makes_an_arm_that_does_not_count(tmp_path: Path) -> None:
    wrong_edit = SetArgument("torch.utils.data.NoSuchThing", "num_workers", 1)
    training = TRAINING.replace("range(100)", "range(1)")
    arm, _ = run(make_plan(tmp_path, training), replace(UNEDITED, edits=(wrong_edit,)))
    assert arm.failed == (
        "an edit could not be made: torch.utils.data.NoSuchThing: there is no such thing"
    )


# ── Cold files ──────────────────────────────────────────────────────────────────────────────────


def fake_recording(folder: Path, reads: Mapping[str, int]) -> Recording:
    """Return what `cold.files` asks of a recording."""
    process, manifest = SimpleNamespace(read=reads), SimpleNamespace(folder=str(folder))
    return cast("Recording", SimpleNamespace(processes=(process,), manifest=manifest))


def test_the_files_of_the_data_are_those_read_and_their_neighbours(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for name in ("images/0.jpg", "images/1.jpg", "images/notes.txt", "table.bin", "other.txt"):
        (tmp_path / name).write_bytes(b"1")
    reads = {"images/0.jpg": 2, str(tmp_path / "table.bin"): 1, "images/gone.jpg": 1, "": 5}
    files = page_cache.find_files(fake_recording(tmp_path, reads))
    assert [str(path.relative_to(tmp_path)) for path in files] == [
        "images/0.jpg",
        "images/1.jpg",
        "table.bin",
    ]


def test_files_are_dropped_from_the_page_cache(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(os.urandom(1 << 20))
    with path.open("rb") as file:
        os.fsync(file.fileno())
    path.read_bytes()
    if is_cached(path) is not True:
        pytest.skip("this file system does not tell what is cached, or caches nothing")
    for _ in range(40):  # the kernel takes the wish as a hint: pages on their way are left
        cache_drop = page_cache.drop([path, tmp_path / "gone"])
        assert (cache_drop.files, cache_drop.bytes, cache_drop.skipped) == (1, 1 << 20, 1)
        if is_cached(path) is False:
            break
        time.sleep(0.05)
    else:
        assert is_kept_by_the_kernel(path)
        pytest.skip("this file system keeps what it is asked to drop")
    assert path.stat().st_size == 1 << 20
    assert page_cache.drop([path], seconds=-1.0) == page_cache.CacheDrop(0, 0, 1)


def is_cached(path: Path) -> bool | None:
    """Return whether a read needs not wait; ``None`` where it cannot be asked."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.preadv(file, [bytearray(4096)], 512 << 10, os.RWF_NOWAIT)
    except OSError as error:
        return False if error.errno == errno.EAGAIN else None
    finally:
        os.close(file)
    return True


def is_kept_by_the_kernel(path: Path) -> bool:
    """Ask without gapless that the file be dropped, often."""
    for _ in range(10):
        file = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)
        if is_cached(path) is False:
            return False
    return True


# ── run --with ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", ["{", "3", '[{"kind": "none"}]', '[{"kind": "skip"}]'])
def test_a_file_without_edits_is_the_users_mistake(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "edits.json"
    path.write_text(text)
    assert run_main("run", "--with", str(path), "true") == 2
    assert capsys.readouterr().err.startswith(f"gapless: {path} ")


def test_edits_are_laid_over_a_whole_run(tmp_path: Path) -> None:
    path = tmp_path / "edits.json"
    path.write_text(json.dumps([{"kind": "set_env", "name": "MADE", "value": "1"}]))
    words = ("run", "--quiet", "--out", str(tmp_path / "runs"), "--with", str(path))
    process = subprocess.run(  # alone: another thread of this process could take the child's signal
        [sys.executable, "-m", "gapless", *words, "sh", "-c", "echo $MADE"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (process.returncode, process.stdout) == (0, "1\n")


def run_main(*words: str) -> int:
    """Return the exit code of a command of gapless."""
    try:
        return main(words)
    except SystemExit as end:
        return int(end.code or 0)
