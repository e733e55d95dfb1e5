"""Recordings that callbacks make: they end by themselves, say the verdict once, and harm nothing.

The callbacks themselves run in their examples, where the frameworks are: CI does not install these
(``pip install lightning transformers accelerate``).
"""

import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final
from unittest.mock import Mock

import msgspec
import pytest

from gapless import wire
from gapless.integrations import verdicts
from gapless.integrations.loop_recording import LoopRecording
from gapless.integrations.verdicts import LoopVerdict
from gapless.launch.run import in_process

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
VERDICT: Final = LoopVerdict("it waits", {"gapless/step_ms": 3.0})
Events = list[str]


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Events:
    """Return what recordings do; nothing is recorded, and the study is there at the second look."""
    happened: Events = []

    @contextmanager
    def record(_: Path | None) -> Generator[Path]:
        happened.append("begin")
        yield tmp_path
        happened.append("end")

    monkeypatch.setattr(in_process, "record", record)
    monkeypatch.setattr(verdicts, "begin_verdict", study_of(msgspec.json.encode(VERDICT), 0))
    return happened


def study_of(content: bytes, code: int) -> Callable[[Path, IO[bytes]], Mock]:
    """Return what stands in for the start of a study that ends like that."""

    def begin(_: Path, output: IO[bytes]) -> Mock:
        output.write(content)
        return Mock(poll=Mock(side_effect=[None, code]), returncode=code)

    return begin


def test_it_ends_behind_its_steps_and_the_verdict_is_said_once(events: Events) -> None:
    log = Mock()
    recording = LoopRecording(3, None, events.append, log)
    recording.begin()
    for step in range(8):
        events.append(str(step))
        recording.count_step()
    recording.end()
    recording.begin()
    assert events == ["begin", "0", "1", "2", "end", "3", "4", "it waits", "5", "6", "7"]
    log.assert_called_once_with({"gapless/step_ms": 3.0})


def test_a_training_that_is_shorter_waits_for_its_verdict(events: Events) -> None:
    recording = LoopRecording(3, None, events.append)
    recording.begin()
    recording.count_step()
    recording.end()
    assert events == ["begin", "end", "it waits"]


def test_a_study_that_fails_is_said(events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "begin_verdict", study_of(b"", 70))
    recording = LoopRecording(1, None, events.append)
    recording.begin()
    recording.count_step()
    recording.end()
    assert "the study ended with exit code 70; gapless report /" in events[-1]


def test_nothing_that_fails_reaches_the_training() -> None:
    lines: list[str] = []
    recording = LoopRecording(3, "/proc/none", lines.append)
    recording.begin()
    recording.count_step()
    recording.end()
    assert lines == ["gapless gave up: FileNotFoundError: No such file or directory"]


def test_what_is_recorded_already_is_left_alone(
    events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(wire.SPOOL, "/tmp/spool")  # noqa: S108 - as below gapless run
    recording = LoopRecording(3, None, events.append)
    recording.begin()
    recording.count_step()
    recording.end()
    assert events == ["gapless records this training from outside: the callback does nothing"]


@pytest.mark.slow
def test_a_real_loop_is_recorded(tmp_path: Path) -> None:
    code = (
        "import sys, train_small; from torch.optim import optimizer;"
        "from gapless.integrations.loop_recording import LoopRecording;"
        "recording = LoopRecording(40, None, print); recording.begin();"
        "optimizer.register_optimizer_step_post_hook("
        "lambda *_: recording.count_step());"
        "sys.argv[1:] = ['60']; train_small.main(); recording.end()"
    )
    assert verdict_of([sys.executable, "-c", code], tmp_path).startswith("gapless · ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "example"),
    [
        ("lightning", "lightning_callback.py"),
        ("transformers", "transformers_callback.py"),
        ("accelerate", "accelerate_tracker.py"),
    ],
)
def test_the_framework_logs_the_verdict(package: str, example: str, tmp_path: Path) -> None:
    pytest.importorskip(package)
    assert "50 steps of" in verdict_of([sys.executable, str(EXAMPLES / example)], tmp_path)


def verdict_of(command: list[str], folder: Path) -> str:
    """Return the line of the verdict that a training logs; it must train to its end."""
    path = os.pathsep.join([str(EXAMPLES), os.environ.get("PYTHONPATH", "")])
    completed = subprocess.run(
        command,
        cwd=folder, env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, timeout=180, check=True,
    )  # fmt: skip
    output = completed.stdout + completed.stderr
    assert "trained " in output
    (line,) = [line for line in output.splitlines() if "gapless report /" in line]
    (run,) = (folder / ".gapless/runs").glob("2*")
    assert "of each step" in line
    assert line.endswith(f"gapless report {run}")
    return line
